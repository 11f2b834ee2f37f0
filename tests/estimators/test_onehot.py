"""One-hot features of strings agree with scikit-learn's encoder and with letters counted by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

from mtlrun.estimators.onehot import OneHotStrings


def test_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    letters = rng.choice(list("ACGTN"), (40, 7))
    strings = np.array(["".join(row).encode() for row in letters])
    reference = OneHotEncoder(categories=[list("ACGT")] * 7, handle_unknown="ignore").fit(letters)
    step = OneHotStrings().fit(strings)
    np.testing.assert_array_equal(step.transform(strings).toarray(), reference.transform(letters).toarray())
    assert step.get_feature_names_out()[:5].tolist() == ["1=A", "1=C", "1=G", "1=T", "2=A"]


def test_case_and_unknown_letters():
    got = OneHotStrings("ac").fit_transform(np.array([b"aC", b"NA"])).toarray()
    assert got.tolist() == [[1, 0, 0, 1], [0, 0, 1, 0]]
    assert clone(OneHotStrings("AC")).alphabet == "AC"


@pytest.mark.parametrize(
    ("alphabet", "X", "text"),
    [
        ("AA", np.array([b"A"]), "different ASCII letters"),
        ("", np.array([b"A"]), "different ASCII letters"),
        ("A", np.array(["A"]), "byte strings"),
        ("A", np.zeros((2, 2)), "byte strings"),
    ],
)
def test_wrong_input_is_refused(alphabet, X, text):
    with pytest.raises(ValueError, match=text):
        OneHotStrings(alphabet).fit(X)


def test_other_length_is_refused():
    step = OneHotStrings().fit(np.array([b"ACG"]))
    with pytest.raises(ValueError, match="4 letters, fitted on strings of 3"):
        step.transform(np.array([b"ACGT"]))
