"""The audit of the published MT-MKL tables finds by itself what is known to be wrong in them, and nothing else."""

import copy

import numpy as np
import pytest

from mtlrun.errors import ConfigError
from mtlrun.papers.mtmkl_audit import audit, audit_tables, finding_line, read_published, verdict_lines


@pytest.fixture(scope="module")
def audits():
    return {a.size: a for a in audit(read_published())}


def findings(a, kind):
    return {f.where: f for f in a.findings if f.kind == kind}


def row(a, method):
    return next(r for r in a.rows if r.method == method)


def test_the_columns_of_20_and_50_per_cent_come_out_but_for_metag(audits):
    for size in (20, 50):
        others = {r.method for r in audits[size].rows} - {"MeTaG"}
        assert set(audits[size].reproduced) == others
    assert row(audits[20], "STL").statistic == pytest.approx(3.71, abs=0.005)
    assert row(audits[20], "MTL").p_value == pytest.approx(0.0121, abs=5e-5)
    assert row(audits[20], "CMTL").statistic == pytest.approx(3.82, abs=0.005)
    assert row(audits[50], "CMTL").statistic == pytest.approx(4.04, abs=0.005)
    assert row(audits[50], "FlexClus").statistic == pytest.approx(3.98, abs=0.005)


def test_the_wrong_rank_of_metag_on_pen_explains_its_statistic(audits):
    ranks = findings(audits[20], "rank")
    assert {where: (f.printed, f.recomputed) for where, f in ranks.items()} == {"MeTaG on Pen": (4.0, 5.0)}
    average = findings(audits[20], "average_rank")["MeTaG"]
    assert average.recomputed == pytest.approx(4.857, abs=1e-3)
    assert average.reason == "follows from a wrong printed rank"
    statistic = findings(audits[20], "statistic")["MeTaG"]
    assert (statistic.printed, round(statistic.recomputed, 2)) == (2.73, 2.84)
    assert statistic.reason == "follows from the printed average ranks"


def test_a_truncated_rank_explains_metag_at_50_per_cent(audits):
    assert findings(audits[50], "rank") == {}
    assert findings(audits[50], "average_rank")["MeTaG"].reason == "truncated instead of rounded"
    statistic = findings(audits[50], "statistic")["MeTaG"]
    assert (statistic.printed, round(statistic.recomputed, 2)) == (2.61, 2.62)


def test_no_number_of_the_10_per_cent_column_comes_out(audits):
    a = audits[10]
    assert a.reproduced == ()
    expected = {"STL": 3.77, "MTL": 2.65, "CMTL": 3.30, "Whom": 1.12, "FlexClus": 1.89, "CoClus": 1.65, "MeTaG": 1.65}
    assert {r.method: round(r.statistic, 2) for r in a.rows} == expected
    assert set(findings(a, "statistic")) == set(findings(a, "p_value")) == set(expected)
    average = findings(a, "average_rank")
    assert set(average) == {"MeTaG"}
    assert (average["MeTaG"].printed, average["MeTaG"].recomputed) == (5.0, 4.0)
    # Its p-values are not those of its own statistics either.
    assert set(findings(a, "p_of_statistic")) == set(expected)


def test_the_numbers_of_methods_dominated(audits):
    assert {size: len(a.rejected) for size, a in audits.items()} == {10: 3, 20: 6, 50: 5}
    assert audits[10].rejected == ("STL", "MTL", "CMTL")
    assert audits[10].rejected_as_printed == ("STL", "CMTL")
    contradiction = findings(audits[10], "rejections")
    assert list(contradiction) == ["the text against the printed p-values and alphas"]
    assert "contradicts the text's 3" in " ".join(verdict_lines(audits[10]))
    for size in (20, 50):
        assert audits[size].rejected_as_printed == audits[size].rejected
        assert findings(audits[size], "rejections") == {}


def test_friedman_rejects_equal_methods_at_every_size(audits):
    assert all(a.friedman.f_pvalue < 0.01 for a in audits.values())
    assert [a.friedman.n_blocks for a in audits.values()] == [6, 7, 7]


def test_the_table_and_the_sentences_carry_the_findings(audits):
    assert "none of the 7 printed statistics" in verdict_lines(audits[10])[0]
    assert "except MeTaG." in verdict_lines(audits[20])[0]
    assert "MeTaG on Pen: rank 5, printed 4" in [finding_line(f) for f in audits[20].findings]
    (table,) = audit_tables(audits[10]).values()
    (metag,) = (dict(zip(table["columns"], row, strict=True)) for row in table["rows"] if row[0] == "MeTaG")
    assert (metag["average rank"], metag["printed"], metag["Rejected"]) == ("4.00", "5.00", "no")


def test_tables_that_agree_give_no_finding():
    """Print what follows from random accuracies, and the audit is content; change one digit, and it is not."""
    rng = np.random.default_rng(0)
    published = read_published()
    methods = list(published["table1"][20]["average_rank"])
    accuracy = {
        f"set{d}": {m: float(np.round(x, 2)) for m, x in zip(methods, rng.uniform(50, 99, 8), strict=True)}
        for d in range(5)
    }
    dummy = {
        "control": "Proposed",
        "significance": 0.05,
        "dominated": {20: 0},
        "table1": {20: {"accuracy": accuracy, "rank": {d: dict.fromkeys(methods, 0.0) for d in accuracy}}},
        "table2": {20: {m: {"statistic": 0, "p-value": 1, "adjusted alpha": 1} for m in methods[:-1]}},
    }
    dummy["table1"][20]["average_rank"] = dict.fromkeys(methods, 0.0)
    (first,) = audit(dummy)
    right = copy.deepcopy(dummy)
    for f in first.findings:
        if f.kind == "rank":
            method, _, dataset = f.where.partition(" on ")
            right["table1"][20]["rank"][dataset][method] = f.recomputed
    for r in first.rows:
        right["table1"][20]["average_rank"][r.method] = round(r.average_rank, 2)
        numbers = {
            "statistic": round(r.statistic, 2),
            "p-value": round(r.p_value, 4),
            "adjusted alpha": round(r.alpha, 5),
        }
        right["table2"][20][r.method] = numbers
    right["table1"][20]["average_rank"]["Proposed"] = round(first.control_rank, 2)
    right["dominated"][20] = len(first.rejected)
    (content,) = audit(right)
    assert content.findings == ()
    right["table2"][20]["STL"]["p-value"] += 0.001
    (alarmed,) = audit(right)
    assert "p_value" in {f.kind for f in alarmed.findings}


def test_a_missing_table_is_named():
    with pytest.raises(ConfigError, match=r"no file of published numbers 'mtmkl/none\.csv'"):
        read_published("mtmkl/none.csv")
