"""``mtlrun list methods``: metadata of methods as text, JSON and BibTeX."""

import json

import pytest

from mtlrun.catalog.registry import BASELINES, METHODS


def test_a_single_method_is_listed_with_all_its_metadata(mtlrun):
    result = mtlrun("list", "methods", "JointFeatureMTL", "GraphMTL")
    assert result.exit_code == 0, result.output
    info = METHODS["JointFeatureMTL"]
    first, second = result.stdout.split("\n\n")
    for text in (
        info.summary,
        info.objective,
        info.complexity,
        info.source,
    ):
        assert text in first
    assert "losses         squared, logistic, squared_hinge" in first
    assert "designs        shared, ragged, masked" in first
    assert "all zero from  alpha_max(X, y)" in first
    assert second.startswith("GraphMTL: ")
    assert "all zero from  sparsity_max(X, y)" in second


def test_all_methods_are_listed_as_json_and_bibtex(mtlrun):
    records = json.loads(mtlrun("list", "methods", "--format", "json").stdout)
    assert [record["name"] for record in records] == [*METHODS, *BASELINES]
    for record in records:
        assert record["designs"]
        if record["name"] in METHODS:
            assert record["objective"]
            assert record["bibtex"].startswith("@")
    sources = mtlrun("list", "methods", "--format", "bibtex").stdout
    keys = {key for info in METHODS.values() for key in info.cite}
    assert sources.count("\n@") + 1 == len(keys)
    citation = mtlrun("list", "methods", "Whom", "--format", "bibtex")
    assert citation.stdout.strip() == METHODS["Whom"].bibtex


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["list", "methods", "JointFeaturMTL"], "Did you mean 'JointFeatureMTL'"),
        (["list", "datasets", "school"], "mtlrun data info DATASET"),
        (["list", "--format", "json"], "only methods and measures take names"),
    ],
)
def test_errors_exit_with_2(mtlrun, args, text):
    result = mtlrun(*args)
    assert result.exit_code == 2, result.output
    assert text in result.output


def test_analyses_are_listed_with_their_quantities(mtlrun):
    lines = mtlrun("list", "measures").stdout.splitlines()
    assert any(line.startswith("data-set-statistics  ") for line in lines)
    described = mtlrun("list", "measures", "data-set-statistics", "svm-audit").stdout
    first, second = described.split("\n\n")
    assert "positive_share  " in first
    assert "positive_share" not in second
    assert mtlrun("list", "measures", "data-set-statistic").exit_code == 2
