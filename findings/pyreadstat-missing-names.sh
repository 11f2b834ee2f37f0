#!/bin/sh
# Question: does a missing task name survive being written to an SPSS or Stata file with
#   pyreadstat and read again?
# Guess: yes, as NaN.
# Happened: it comes back as the empty text, which is not missing for pandas. (The formats
#   have no missing value for texts.) Missing numbers do survive.
# Matters: rows without a task become one more task, named "".
. "$(dirname "$0")/setup"
install numpy==2.4.6 pandas==3.1.1 pyreadstat==1.3.7
check <<'EOF'
import pandas as pd
import pyreadstat
from facts import fact

data = pd.DataFrame({"task": ["a", None, "b"], "x": [1.0, None, 3.0]})
fact("missing names before", int(data.task.isna().sum()), 1)
pyreadstat.write_sav(data, "data.sav")
pyreadstat.write_dta(data, "data.dta")
for read, file in ((pyreadstat.read_sav, "data.sav"), (pyreadstat.read_dta, "data.dta")):
    back, _ = read(file)
    fact(f"{file}: names", back.task.tolist(), ["a", "", "b"])
    fact(f"{file}: missing names and numbers", back.isna().sum().tolist(), [0, 1])
    fact(f"{file}: tasks", int(back.task.nunique()), 3)
EOF
