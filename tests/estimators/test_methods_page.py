"""docs/methods.md is what the registry says."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.linear_model
from mtlrun.estimators.methods_page import main, methods_page

from mtlrun.estimators.registry import METHODS, load_class

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == methods_page(), (
        "run: python -m mtlrun.estimators.methods_page docs/methods.md"
    )


def test_every_method_is_on_the_page_with_its_reference():
    page = methods_page()
    for name, info in METHODS.items():
        assert re.search(rf"\b{name}\b", page)
        assert f"{{{info.bibtex_key}," in page
        if not name.endswith("Classifier"):
            assert info.objective in page
    for link in re.findall(r"\]\(#([^)]*)\)", page):
        assert re.search(rf"^## {link}$", page, flags=re.MULTILINE | re.IGNORECASE)


def test_it_is_written_to_a_file_or_shown(tmp_path, capsys):
    main([str(tmp_path / "page.md")])
    main([])
    assert capsys.readouterr().out == (tmp_path / "page.md").read_text(encoding="utf-8") == methods_page()


def test_making_it_needs_no_third_party_package():
    code = "import sys, mtlrun.estimators.methods_page as m; m.methods_page(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("there", "here", "n"),
    [("MultiTaskLasso", "JointFeatureMTL", 40), ("Lasso", "SparseMTL", 40)],
)
def test_strengths_of_scikit_learn_are_converted_as_the_page_says(there, here, n):
    assert f"`{there}(a)`" in methods_page()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    Y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(n, 3))
    oracle = getattr(sklearn.linear_model, there)(0.2, tol=1e-10).fit(X, Y)
    model = load_class(here)(n * 0.2, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=1e-4)
