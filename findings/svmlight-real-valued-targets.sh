#!/bin/sh
# Question: can dump_svmlight_file write several real-valued targets with
#   multilabel=True?
# Guess: an error: the format holds labels only.
# Happened: it writes the numbers of the targets that are not zero. The values are lost,
#   and a negative target counts as a label.
# Matters: a multi-output table turns into a multi-label one in silence.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1
check <<'EOF'
import io
import numpy as np
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from facts import error_of, fact

X = np.eye(3)
Y = np.array([[0.5, 0.0], [7.0, -2.5], [0.0, 0.0]])
file = io.BytesIO()
dump_svmlight_file(X, Y, file, multilabel=True)
fact("lines", file.getvalue().decode().splitlines(), ["0 0:1", "0,1 1:1", " 2:1"])
file.seek(0)
_, labels = load_svmlight_file(file, multilabel=True)
fact("read again", [list(row) for row in labels], [[0.0], [0.0, 1.0], []])
without = error_of(lambda: dump_svmlight_file(X, Y, io.BytesIO()))
fact("without multilabel: error", without, "ValueError")
EOF
