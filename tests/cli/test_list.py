"""``mtlrun list methods``: facts of single methods as text, JSON and BibTeX."""

import json

import pytest

from mtlrun.estimators.registry import METHODS


def test_one_method_with_everything_that_is_known(mtlrun):
    result = mtlrun("list", "methods", "JointFeatureMTL", "GraphMTL")
    assert result.exit_code == 0, result.output
    info = METHODS["JointFeatureMTL"]
    first, second = result.stdout.split("\n\n")
    for text in (
        info.summary,
        info.objective,
        info.complexity,
        info.source,
        info.bibtex,
    ):
        assert text in first
    assert "losses         squared, logistic, squared_hinge" in first
    assert "designs        shared, ragged, masked" in first
    assert "all zero from  alpha_max(X, y)" in first
    assert second.startswith("GraphMTL: ")
    assert "all zero from  sparsity_max(X, y)" in second


def test_all_methods_as_json_and_bibtex(mtlrun):
    records = json.loads(mtlrun("list", "methods", "--format", "json").stdout)
    assert [record["name"] for record in records] == list(METHODS)
    assert all(
        record["objective"] and record["designs"] and record["bibtex"].startswith("@")
        for record in records
    )
    sources = mtlrun("list", "methods", "--format", "bibtex").stdout
    keys = {key for info in METHODS.values() for key in info.cite}
    assert sources.count("\n@") + 1 == len(keys)
    one = mtlrun("list", "methods", "Whom", "--format", "bibtex")
    assert one.stdout.strip() == METHODS["Whom"].bibtex


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["list", "methods", "JointFeaturMTL"], "Did you mean 'JointFeatureMTL'"),
        (["list", "datasets", "school"], "mtlrun data info DATASET"),
        (["list", "--format", "json"], "only methods take names and --format"),
    ],
)
def test_errors_end_with_2(mtlrun, args, text):
    result = mtlrun(*args)
    assert result.exit_code == 2, result.output
    assert text in result.output


def test_measures_are_listed_with_their_quantities(mtlrun):
    lines = mtlrun("list", "measures").stdout.splitlines()
    (place,) = [
        i for i, line in enumerate(lines) if line.startswith("data-set-statistics ")
    ]
    assert "positive_share" in lines[place + 1]
