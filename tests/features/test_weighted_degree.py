"""Weighted-degree features against a kernel counted letter by letter; designs computed
on the fly; errors.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mtlrun.features import WeightedDegree
from mtlrun.features.dna import letters_of, pack


def kernel(a, b, degree):
    """Count equal k-mers at equal positions, with their weights."""
    total = 0.0
    for k in range(1, degree + 1):
        weight = 2 * (degree - k + 1) / (degree * (degree + 1))
        for p in range(len(a) - k + 1):
            word = a[p : p + k]
            total += weight * (word == b[p : p + k] and set(word) <= set("ACGT"))
    return total


def strings(n=12, length=9, alphabet="ACGT", seed=0):
    rng = np.random.default_rng(seed)
    return np.array(["".join(rng.choice(list(alphabet), length)) for _ in range(n)])


@pytest.mark.slow
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(
            st.text("ACGTN", min_size=n, max_size=n), min_size=1, max_size=5
        )
    ),
    st.integers(1, 4),  # The matrix has up to 12 * 4^5 / 3 columns.
)
def test_inner_products_equal_the_kernel(words, degree):
    X = WeightedDegree(degree=degree).fit_transform(np.array(words))
    expected = [[kernel(a, b, degree) for b in words] for a in words]
    assert_allclose((X @ X.T).toarray(), expected, atol=1e-12)


def test_columns_match_the_exact_index():
    X = WeightedDegree(degree=2).fit_transform(np.array([b"CAT"]))
    # Positions 1 and 2 have 4 letters and 16 pairs; position 3 has only letters.
    assert X.shape == (1, 44)
    assert X.indices.tolist() == [1, 4 + 4 * 1 + 0, 20 + 0, 24 + 4 * 0 + 3, 40 + 3]
    assert_allclose(X.data**2, [2 / 3, 1 / 3, 2 / 3, 1 / 3, 2 / 3])


def test_columns_have_names():
    transformer = WeightedDegree(degree=2)
    X = transformer.fit_transform(np.array([b"CAT"]))
    names = transformer.get_feature_names_out()
    assert len(names) == X.shape[1]
    assert names[X.indices].tolist() == ["1:C", "1:CA", "2:A", "2:AT", "3:T"]


def test_a_string_has_the_number_of_features_in_the_paper():
    X = WeightedDegree(degree=8).fit_transform(strings(1, 42))
    assert (X @ X.T).toarray().item() == pytest.approx(39.67, abs=5e-3)
    assert X.shape == (1, 3087416)
    assert X.nnz == 42 * 8 - 28


@pytest.mark.parametrize("alphabet", ["ACGT", "ACGTN"])
def test_normalized_strings_have_norm_one(alphabet):
    X = WeightedDegree(degree=4, normalize=True).fit_transform(
        strings(alphabet=alphabet)
    )
    assert_allclose(X.multiply(X).sum(axis=1), 1)


def test_a_string_of_unknown_letters_has_no_features():
    X = WeightedDegree(degree=3, normalize=True).fit_transform(
        np.array(["NNNN", "ACGT"])
    )
    assert X[[0]].nnz == 0


def test_hashing_keeps_kernels_on_average():
    words = strings(6, 60, seed=1)
    exact = WeightedDegree(degree=4).fit_transform(words)
    hashed = WeightedDegree(degree=4, hash_bits=14).fit_transform(words)
    assert hashed.shape == (6, 2**14)
    assert_allclose(
        (hashed @ hashed.T).toarray(), (exact @ exact.T).toarray(), atol=4.0
    )
    assert WeightedDegree(degree=20, hash_bits=10).fit_transform(words).shape == (
        6,
        1024,
    )


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"hash_bits": 5}])
@pytest.mark.parametrize("alphabet", ["ACGT", "ACGTRN"])
def test_rows_on_the_fly_equal_those_of_the_matrix(options, alphabet):
    words = strings(alphabet=alphabet)
    transformer = WeightedDegree(degree=3, **options).fit(words)
    X, design = transformer.transform(words), transformer.design(words)
    W = np.random.default_rng(0).normal(size=(X.shape[1], 2))
    assert design.shape == X.shape
    assert_allclose(design @ W, X @ W)
    assert_allclose(design @ W[:, 0], X @ W[:, 0])
    rows = np.array([3, 1, 1])
    assert_allclose(design[rows] @ W, (X @ W)[rows])
    assert_allclose(design[2:5] @ W, (X @ W)[2:5])


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.array,
        lambda s: np.char.encode(s, "ascii"),
        lambda s: pd.DataFrame({"s": s}),
    ],
)
def test_all_string_types_give_the_same_features(kind):
    words = strings()
    expected = WeightedDegree(degree=3).fit_transform(words).toarray()
    assert_allclose(
        WeightedDegree(degree=3).fit_transform(kind(words)).toarray(), expected
    )
    assert_allclose(
        WeightedDegree(degree=3).fit_transform(np.array(words, dtype=object)).toarray(),
        expected,
    )


def test_lower_case_letters_and_rna_are_read():
    transformer = WeightedDegree(degree=2).fit(["ACGT"])
    expected = transformer.transform(["ACGT"]).toarray()
    assert_allclose(transformer.transform(["acgu"]).toarray(), expected)
    for letter in "RYSWKMBDHVNn":
        assert_allclose(
            transformer.transform([f"A{letter}GT"]).toarray(),
            transformer.transform(["ANGT"]).toarray(),
        )


def test_packing_takes_a_quarter_of_a_byte_per_letter():
    dna = pack(letters_of(strings(5, 141)))
    assert dna.letters.shape == (5, 36)
    assert dna.unknown.size == 0


def test_the_step_is_a_scikit_learn_transformer():
    words = strings(40)
    y = np.array([1 if word[0] in "AC" else -1 for word in words])
    model = make_pipeline(clone(WeightedDegree(degree=2)), LinearSVC()).fit(words, y)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(words) == y).mean() == 1.0


def test_invalid_strings_are_rejected():
    for words, message in [
        (["ACGT", "ACG"], "unequal length: string 1 has 3 letters, string 0 has 4"),
        (
            np.array([b"ACG", b"ACGT"]),
            "unequal length: string 1 has 4 letters, string 0 has 3",
        ),
        (np.array(["AC", "ACGT"], dtype=object), "unequal length"),
        (["ACGT", "AC-T"], "string 1, position 3: '-' is no IUPAC letter"),
        (["ACGT", "AXGT"], "string 1, position 2: 'X'"),
        (["ACGT", "AéGT"], "string 1, position 2"),
        (["AC T"], "position 3: ' '"),
        ([], "must be a one-dimensional array of strings|has no strings"),
        (np.array([], dtype="S4"), "X has no strings"),
        ([""], "only empty strings"),
        (np.zeros((3, 2)), "array of strings, got dtype float64"),
        (np.array(["ACGT", None], dtype=object), "string 1 is None"),
        (np.array(["ACGT", np.nan], dtype=object), "string 1 is nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            WeightedDegree(degree=2).fit_transform(words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 0}, "degree must be an int from 1 to 31, got 0"),
        ({"degree": 32}, "degree must be"),
        ({"degree": 2.0}, "degree must be"),
        ({"hash_bits": 40}, "hash_bits must be an int from 1 to 28"),
        ({"degree": 15}, "more than 2147483647; hash them"),
    ],
)
def test_invalid_parameters_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        WeightedDegree(**options).fit(strings(2, 20))


def test_strings_of_another_length_are_rejected_in_transform():
    transformer = WeightedDegree(degree=2).fit(["ACGT"])
    with pytest.raises(ValueError, match="strings of 4"):
        transformer.transform(["ACG"])
    with pytest.raises(ValueError, match="features have no names"):
        WeightedDegree(hash_bits=4).fit(["ACGT"]).get_feature_names_out()
