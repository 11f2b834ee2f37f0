#!/bin/sh
# Question: in which order are the columns that scikit-multilearn's ClassifierChain with
#   an `order` predicts?
# Guess: that of the labels in training, as in scikit-learn's ClassifierChain.
# Happened: that of the chain, for labels and probabilities alike.
# Matters: labels that are almost perfectly predicted have an accuracy of a half, without
#   any error. A search over orders selects those that move few labels.
. "$(dirname "$0")/setup"
install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 liac-arff==2.5.0 requests==2.34.2 \
    scikit-multilearn==0.2.0
check <<'EOF'
import numpy as np
from facts import fact
from sklearn import multioutput
from sklearn.linear_model import LogisticRegression
from skmultilearn.problem_transform import ClassifierChain

X = np.random.default_rng(0).normal(size=(300, 3))
Y = (X > 0).astype(int)
ORDER = [2, 0, 1]


def accuracies(predicted, truth):
    return (predicted == truth).mean(axis=0)


chain = ClassifierChain(LogisticRegression(), order=ORDER).fit(X, Y)
labels = chain.predict(X).toarray()
probable = chain.predict_proba(X).toarray() > 0.5
fact("accuracies about a half", bool((accuracies(labels, Y) < 0.6).all()), True)
fact("against permuted labels", bool((accuracies(labels, Y[:, ORDER]) > 0.95).all()), True)
fact("probabilities, too", bool((accuracies(probable, Y[:, ORDER]) > 0.95).all()), True)
peer = multioutput.ClassifierChain(LogisticRegression(), order=ORDER).fit(X, Y)
fact("scikit-learn", bool((accuracies(peer.predict(X), Y) > 0.95).all()), True)
EOF
