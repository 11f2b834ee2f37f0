#!/bin/sh
# Question: does glum compute standard errors clustered by task names?
# Guess: yes; clusters are labels.
# Happened: TypeError: names are compared with integers. Integer codes work.
# Matters: pass pandas.factorize(names)[0].
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 glum==3.4.1
check <<'EOF'
import pandas as pd
from glum import GeneralizedLinearRegressor
from facts import error_of, fact, grouped_data

data = grouped_data()
model = GeneralizedLinearRegressor(alpha=0).fit(data[["x"]], data.y)


def errors(clusters):
    return model.std_errors(data[["x"]], data.y, clusters=clusters)


names = data.task.map("task {}".format).to_numpy(dtype=object)
fact("names", error_of(lambda: errors(names)), "TypeError")
fact("integers", error_of(lambda: errors(data.task.to_numpy())), "none")
codes = pd.factorize(names)[0]
fact("codes of the names", error_of(lambda: errors(codes)), "none")
EOF
