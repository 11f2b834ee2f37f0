"""Statistical tests against SciPy, published examples and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from mtlrun import stats as s

# Demsar (2006), Table 6: AUC of C4.5 and its tuned versions (m, cf, m+cf) on 14 data
# sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
small_integers = st.lists(st.integers(-6, 6), min_size=2, max_size=9)


@given(small_integers)
def test_wilcoxon_equals_enumeration_with_ties_and_zeros(values):
    d = np.array(values, dtype=float)
    assume(d.any())
    result = s.paired_test(d, np.zeros(len(d)))
    nonzero = d[d != 0]
    ranks = stats.rankdata(abs(nonzero))
    sums = np.array(
        [np.dot(signs, ranks) for signs in itertools.product([0, 1], repeat=len(ranks))]
    )
    observed = ranks[nonzero > 0].sum()
    tail = min((sums <= observed).mean(), (sums >= observed).mean())
    assert result.statistic == observed
    assert result.pvalue == pytest.approx(min(1, 2 * tail), abs=1e-12)


def test_wilcoxon_equals_scipy_without_ties():
    rng = np.random.default_rng(0)
    for n in (5, 12, 50, 51, 200):
        a, b = rng.standard_normal((2, n))
        method = "exact" if n <= s.EXACT_LIMIT else "approx"
        assert s.paired_test(a, b).pvalue == pytest.approx(
            stats.wilcoxon(a, b, method=method).pvalue, rel=1e-10
        )


def test_the_t_test_equals_scipy():
    a, b = np.random.default_rng(1).standard_normal((2, 10))
    result = s.paired_test(a, b, "t")
    expected = stats.ttest_rel(a, b)
    assert result.statistic == pytest.approx(expected.statistic)
    assert result.pvalue == pytest.approx(expected.pvalue)


def test_the_corrected_t_test_matches_a_hand_calculation():
    # Differences 1, 2, 3, 4: mean 2.5, variance 5/3; with test/train = 1/4 the variance
    # of the mean is (1/4 + 1/4) 5/3.
    a = np.array([1.0, 2.0, 3.0, 4.0])
    result = s.paired_test(a, np.zeros(4), "corrected_t", test_over_train=0.25)
    assert result.statistic == pytest.approx(2.5 / np.sqrt(0.5 * 5 / 3))
    assert result.pvalue == pytest.approx(2 * stats.t.sf(result.statistic, 3))
    assert result.pvalue > s.paired_test(a, np.zeros(4), "t").pvalue


@pytest.mark.parametrize("kind", ["wilcoxon", "t", "corrected_t"])
def test_edge_cases_of_paired_tests_are_handled(kind):
    result = s.paired_test([1.0, np.nan], [0.5, 0.1], kind, test_over_train=0.5)
    assert (result.n, result.mean_difference, result.pvalue, result.statistic) == (
        1,
        0.5,
        None,
        None,
    )
    none = s.paired_test([np.nan], [0.1], kind, test_over_train=0.5)
    assert none.n == 0
    assert np.isnan(none.mean_difference)
    same = s.paired_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], kind, test_over_train=0.5)
    assert (same.pvalue, same.ties) == (1.0, 3)
    mixed = s.paired_test([1.0, 2.0, 3.0], [1.0, 1.0, 5.0], kind, test_over_train=0.5)
    assert (mixed.wins, mixed.losses, mixed.ties) == (1, 1, 1)


@pytest.mark.parametrize("kind", ["wilcoxon", "t"])
def test_paired_tests_are_symmetric(kind):
    a, b = np.random.default_rng(2).standard_normal((2, 9))
    there, back = s.paired_test(a, b, kind), s.paired_test(b, a, kind)
    assert there.pvalue == pytest.approx(back.pvalue)
    assert there.mean_difference == -back.mean_difference


def test_differences_with_variance_one_are_not_a_special_case():
    a = np.array([1.0, 2.0, 3.0])
    assert s.paired_test(a, np.zeros(3), "t").pvalue == pytest.approx(
        stats.ttest_rel(a, np.zeros(3)).pvalue
    )


def test_a_constant_difference_is_certain_under_the_t_test():
    result = s.paired_test([2.0, 3.0], [1.0, 2.0], "t")
    assert (result.statistic, result.pvalue) == (np.inf, 0.0)


def test_invalid_paired_input_is_rejected():
    with pytest.raises(ValueError, match="same length"):
        s.paired_test([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="needs test_over_train"):
        s.paired_test([1.0, 2.0], [1.0, 3.0], "corrected_t")
    with pytest.raises(ValueError, match="kind must be"):
        s.paired_test([1.0], [1.0], "sign")


def test_average_ranks_match_demsar():
    ranks = s.rank_table(DEMSAR)
    np.testing.assert_allclose(
        ranks.mean(axis=0), [3.143, 2.000, 2.893, 1.964], atol=5e-4
    )
    np.testing.assert_array_equal(s.rank_table(-DEMSAR, greater_is_better=False), ranks)


def test_friedman_equals_scipy():
    result = s.friedman(DEMSAR)
    expected = stats.friedmanchisquare(*DEMSAR.T)
    assert result.chi2 == pytest.approx(expected.statistic)
    assert result.chi2_pvalue == pytest.approx(expected.pvalue)
    assert result.f_pvalue == pytest.approx(stats.f.sf(result.f, 3, 39))


def test_friedman_matches_a_hand_calculation():
    # Ranks (1,2,3), (1,2,3), (1,3,2): sums 3, 7, 8; chi2 = 12/(3*3*4) (9 + 49 + 64) -
    # 3*3*4 = 14/3. F = 2 chi2 / (6 - chi2) = 7.
    result = s.friedman([[3, 2, 1], [3, 2, 1], [3, 1, 2]])
    assert result.chi2 == pytest.approx(14 / 3)
    assert result.f == pytest.approx(7.0)


def test_two_blocks_and_two_methods_are_enough_for_friedman():
    # Ranks (1, 2) twice: chi2 = 12/(2*2*3) (4 + 16) - 3*2*3 = 2 with chi2(1).
    result = s.friedman([[2.0, 1.0], [2.0, 1.0]])
    assert (result.n_blocks, result.n_methods) == (2, 2)
    assert result.chi2 == pytest.approx(2.0)
    assert result.chi2_pvalue == pytest.approx(stats.chi2.sf(2.0, 1))


def test_edge_cases_of_friedman_are_handled():
    tied = s.friedman(np.ones((4, 3)))
    assert (tied.chi2, tied.chi2_pvalue, tied.f_pvalue) == (0.0, 1.0, 1.0)
    same_order = s.friedman([[3.0, 2.0, 1.0]] * 5)
    assert (same_order.f, same_order.f_pvalue) == (np.inf, 0.0)
    with pytest.raises(ValueError, match="at least 2 blocks"):
        s.friedman([[1.0, 2.0]])
    with pytest.raises(ValueError, match="block 0 is missing"):
        s.friedman([[1.0, np.nan], [1.0, 2.0]])
    with pytest.raises(ValueError, match="2 dimensions"):
        s.rank_table([1.0, 2.0])


def test_the_critical_difference_matches_demsar():
    # CD = 2.569 sqrt(4*5/(6*14)) = 1.25 for alpha 0.05 and 2.291 sqrt(...) = 1.12 for
    # 0.10.
    assert s.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert s.critical_difference(4, 14, alpha=0.10) == pytest.approx(1.12, abs=0.005)


def test_holm_matches_the_control_example_of_demsar():
    # C4.5 against m+cf, cf, m: z = 2.416, 0.512, 2.343 (with printed ranks), p = 0.016,
    # 0.607, 0.019.
    tests = s.control_tests(DEMSAR, 0)
    assert [test.column for test in tests] == [3, 1, 2]
    pvalues = [test.pvalue for test in tests]
    np.testing.assert_allclose(pvalues, [0.016, 0.019, 0.607], atol=2e-3)
    # 2 * 0.019 would be below 3 * 0.016, so the step-down keeps the larger one for
    # both.
    np.testing.assert_allclose(
        [test.adjusted for test in tests], [3 * pvalues[0], 3 * pvalues[0], pvalues[2]]
    )
    np.testing.assert_allclose(
        [test.alpha for test in tests], [0.05 / 3, 0.05 / 2, 0.05]
    )
    assert [test.rejected for test in tests] == [True, True, False]


def test_a_control_test_rejects_by_its_adjusted_p_value():
    best, *_ = s.control_tests(DEMSAR, 0, level=0.04)
    assert best.pvalue < 0.04 < best.adjusted
    assert not best.rejected


def test_holm_matches_a_hand_calculation():
    np.testing.assert_allclose(
        s.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]
    )
    np.testing.assert_allclose(s.holm([0.9, np.nan, 0.6]), [1.0, np.nan, 1.0])
    assert s.holm([]).shape == (0,)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        s.holm([1.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_the_order_and_never_decreases(pvalues):
    raw, adjusted = np.array(pvalues), s.holm(pvalues)
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, raw * len(raw)) + 1e-15).any()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("n", [80, 400])
def test_wilcoxon_of_many_pairs_with_ties_equals_scipy(n):
    rng = np.random.default_rng(n)
    a = rng.integers(0, 9, n).astype(float)
    b = rng.integers(0, 8, n).astype(float)
    theirs = stats.wilcoxon(a, b, correction=False, method="approx")
    assert s.paired_test(a, b).pvalue == pytest.approx(theirs.pvalue, rel=1e-12)


def test_ranks_equal_those_of_scipy():
    table = np.random.default_rng(0).integers(0, 4, (6, 5)).astype(float)
    ours = s.rank_table(table, greater_is_better=False)
    assert ours.tolist() == stats.rankdata(table, axis=1).tolist()
