#!/bin/sh
# Question: can the groups of a GPBoost model be a column of task names of pandas 3, as
#   texts or as categories?
# Guess: yes, both.
# Happened: neither. Texts raise NotImplementedError, categories ValueError; both messages
#   are about shapes of arrays inside pandas and numpy. An array of objects works.
# Matters: pass column.to_numpy(dtype=object).
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 scipy==1.16.3 scikit-learn==1.9.1 pyarrow==26.0.1 \
    gpboost==1.8.0
check <<'EOF'
from gpboost import GPModel
from facts import error_of, fact, grouped_data

data = grouped_data()
names = data.task.map("task {}".format)
categories = names.astype("category")
fact("type of a column of texts", str(names.dtype), "str")
fact("texts: error", error_of(lambda: GPModel(group_data=names)), "NotImplementedError")
fact("categories: error", error_of(lambda: GPModel(group_data=categories)), "ValueError")
for column in (names, categories):
    objects = column.to_numpy(dtype=object)
    fact(f"{column.dtype} as objects: error",
         error_of(lambda groups=objects: GPModel(group_data=groups)), "none")
EOF
