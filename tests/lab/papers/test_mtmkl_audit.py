"""The audit of the published MT-MKL tables finds the known errors and no others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mtlrun.errors import ConfigError
from mtlrun.papers.mtmkl.audit import (
    DOMINATED,
    Published,
    audit,
    read_published,
    table_audit,
    verdict_lines,
)
from mtlrun.stats import rank_table


@pytest.fixture(scope="module")
def audits():
    return {
        size: audit(read_published(size), claimed)
        for size, claimed in DOMINATED.items()
    }


def wrong(a, kind):
    return {d.where: d for d in a.discrepancies if d.kind == kind}


def rejected(a, column="rejected"):
    return list(a.methods.index[a.methods[column]])


def test_the_columns_of_20_and_50_percent_are_reproduced_except_for_metag(audits):
    for size in (20, 50):
        assert set(audits[size].reproduced) == set(audits[size].methods.index) - {
            "MeTaG"
        }
    assert audits[20].methods.loc[["STL", "CMTL"], "z"].tolist() == pytest.approx(
        [3.71, 3.82], abs=0.005
    )
    assert audits[20].methods.loc["MTL", "p"] == pytest.approx(0.0121, abs=5e-5)
    assert audits[50].methods.loc[["CMTL", "FlexClus"], "z"].tolist() == pytest.approx(
        [4.04, 3.98], abs=0.005
    )


def test_the_wrong_rank_of_metag_on_pen_explains_its_statistic(audits):
    ranks = wrong(audits[20], "rank")
    assert {where: (d.printed, d.recomputed) for where, d in ranks.items()} == {
        "MeTaG on Pen": (4.0, 5.0)
    }
    average = wrong(audits[20], "average rank")["MeTaG"]
    assert average.recomputed == pytest.approx(4.857, abs=1e-3)
    assert average.reason == "follows from a wrong printed rank"
    statistic = wrong(audits[20], "test statistic")["MeTaG"]
    assert (statistic.printed, round(statistic.recomputed, 2)) == (2.73, 2.84)
    assert statistic.reason == "follows from the printed average ranks"


def test_a_truncated_rank_explains_metag_at_50_percent(audits):
    assert wrong(audits[50], "rank") == {}
    assert (
        wrong(audits[50], "average rank")["MeTaG"].reason
        == "truncated instead of rounded"
    )
    statistic = wrong(audits[50], "test statistic")["MeTaG"]
    assert (statistic.printed, round(statistic.recomputed, 2)) == (2.61, 2.62)


def test_no_number_of_the_10_percent_column_is_reproduced(audits):
    a = audits[10]
    assert a.reproduced == []
    expected = {
        "STL": 3.77,
        "MTL": 2.65,
        "CMTL": 3.30,
        "Whom": 1.12,
        "FlexClus": 1.89,
        "CoClus": 1.65,
        "MeTaG": 1.65,
    }
    assert a.methods["z"].round(2).to_dict() == expected
    assert set(wrong(a, "test statistic")) == set(wrong(a, "p-value")) == set(expected)
    average = wrong(a, "average rank")
    assert {where: (d.printed, d.recomputed) for where, d in average.items()} == {
        "MeTaG": (5.0, 4.0)
    }
    # Its p-values do not match its own statistics either.
    assert set(wrong(a, "p-value of the printed statistic")) == set(expected)


def test_numbers_of_dominated_methods_are_reproduced(audits):
    assert {size: len(rejected(a)) for size, a in audits.items()} == {
        10: 3,
        20: 6,
        50: 5,
    }
    assert rejected(audits[10]) == ["STL", "MTL", "CMTL"]
    assert rejected(audits[10], "printed rejected") == ["STL", "CMTL"]
    kind = "number of methods dominated"
    assert list(wrong(audits[10], kind)) == [
        "the text against the printed p-values and alphas"
    ]
    for size in (20, 50):
        assert rejected(audits[size], "printed rejected") == rejected(audits[size])
        assert wrong(audits[size], kind) == {}


def test_friedman_rejects_equal_methods_at_every_size(audits):
    assert all(a.friedman.f_pvalue < 0.01 for a in audits.values())
    assert [a.friedman.n_blocks for a in audits.values()] == [6, 7, 7]


def test_the_audit_has_numbers_a_table_and_sentences(audits):
    measured = table_audit(None, seed=0, size=10)
    assert measured.values["not_reproduced"] == 7
    assert measured.values["findings"] == len(audits[10].discrepancies)
    (table,) = measured.tables.values()
    (metag,) = (
        dict(zip(table["columns"], row, strict=True))
        for row in table["rows"]
        if row[0] == "MeTaG"
    )
    assert (metag["average rank"], metag["printed"], metag["Rejected"]) == (
        "4.00",
        "5.00",
        "no",
    )
    assert any("contradicts the text's 3" in line for line in measured.lines)
    assert "except MeTaG." in verdict_lines(audits[20], 6)[0]
    assert "MeTaG on Pen: rank 5, printed 4" in map(str, audits[20].discrepancies)


def test_consistent_tables_have_no_discrepancy():
    """Tables of random accuracies pass the audit; with one changed digit they fail."""
    rng = np.random.default_rng(0)
    methods = list(read_published(20).accuracy.columns)
    accuracy = pd.DataFrame(rng.uniform(50, 99, (5, 8)).round(2), columns=methods)
    ranks = pd.DataFrame(rank_table(accuracy), columns=methods)
    tests = pd.DataFrame(
        0.0, index=methods[:-1], columns=["statistic", "p-value", "adjusted alpha"]
    )
    printed = Published(accuracy, ranks, ranks.mean().round(2), tests)
    result = audit(printed, 0)
    assert wrong(result, "rank") == wrong(result, "average rank") == {}
    tests["statistic"] = result.methods["z"].round(2)
    tests["p-value"] = result.methods["p"].round(4)
    tests["adjusted alpha"] = result.methods["alpha"].round(5)
    assert audit(printed, len(rejected(result))).discrepancies == []
    tests.loc["STL", "p-value"] += 0.001
    alarmed = audit(replace(printed, tests=tests), len(rejected(result)))
    assert {d.kind for d in alarmed.discrepancies} >= {"p-value"}


def test_a_missing_table_and_an_unknown_size_are_named():
    with pytest.raises(ConfigError, match=r"'mtmkl/none\.csv'"):
        read_published(10, "mtmkl/none.csv")
    with pytest.raises(ValueError, match="30%; there are 10, 20, 50"):
        read_published(30)
