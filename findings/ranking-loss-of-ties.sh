#!/bin/sh
# Question: what is label_ranking_loss if all labels have the same score?
# Guess: 0.5: a tied pair is half wrong, as in the area under the ROC curve.
# Happened: 1.0: a tied pair is counted as wrong.
# Matters: a constant model (all labels 0.5) is as bad as one that ranks all pairs
#   the wrong way round; forests and trees with few distinct scores are punished. The
#   mean over rows of 1 - AUC differs from it by half of the tied pairs.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.16.3 scikit-learn==1.9.1
check <<'EOF'
import numpy as np
from sklearn.metrics import label_ranking_loss, roc_auc_score
from facts import fact

Y = np.array([[1, 0, 0, 0], [0, 1, 1, 0]])
tied = np.full(Y.shape, 0.5)
fact("all tied", label_ranking_loss(Y, tied), 1.0, 1e-12)
fact("all pairs wrong", label_ranking_loss(Y, 1 - Y), 1.0, 1e-12)
fact("all pairs right", label_ranking_loss(Y, Y), 0.0, 1e-12)
fact("all tied: 1 - AUC by row", 1 - roc_auc_score(Y, tied, average="samples"), 0.5, 1e-12)
rounded = np.array([[0.5, 0.5, 0.2, 0.2], [0.1, 0.9, 0.1, 0.1]])
loss = label_ranking_loss(Y, rounded)
auc = roc_auc_score(Y, rounded, average="samples")
fact("half of the pairs of one label tied: loss, 1 - AUC", [loss, 1 - auc],
     [0.4167, 0.2083], 0.001)
EOF
