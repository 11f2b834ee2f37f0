#!/bin/sh
# Question: a label of an ARFF file (the format of Mulan and MEKA) is declared {1,0}
#   instead of {0,1}. Does scikit-multilearn still read 1 as 1?
# Guess: yes, labels are the numbers in the rows.
# Happened: no. Labels are positions in the declaration: in dense files all labels are
#   swapped, in sparse files labels of 1 are 0 as well.
# Matters: no error; every score and every frequency of a label is that of its opposite.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 liac-arff==2.5.0 requests==2.34.2 \
    scikit-multilearn==0.2.0
check <<'EOF'
from pathlib import Path

from facts import fact
from skmultilearn.dataset import load_from_arff

DENSE = "1.5,1,0\n2.5,1,0\n3.5,0,1\n"
SPARSE = "{0 1.5,1 1}\n{0 2.5,1 1}\n{0 3.5,2 1}\n"


def labels(declared, rows, sparse):
    lines = ["@relation r", "@attribute x numeric"]
    lines += [f"@attribute {name} {declared}" for name in ("a", "b")]
    path = Path("labels.arff")
    path.write_text("\n".join([*lines, "@data", rows]))
    _, Y = load_from_arff(
        path, label_count=2, label_location="end", load_sparse=sparse
    )
    return Y.toarray().tolist()


truth = [[1, 0], [1, 0], [0, 1]]
fact("{0,1}, dense", labels("{0,1}", DENSE, False), truth)
fact("{0,1}, sparse", labels("{0,1}", SPARSE, True), truth)
fact("{1,0}, dense", labels("{1,0}", DENSE, False), [[0, 1], [0, 1], [1, 0]])
# In a sparse row of ARFF an omitted nominal cell has the first declared value, here 1.
fact("{1,0}, sparse, written 1", labels("{1,0}", SPARSE, True)[0][0], 0)
EOF
