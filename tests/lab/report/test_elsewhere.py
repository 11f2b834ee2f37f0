"""Reports are rebuilt byte for byte on a machine without data and solvers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest

from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.formats import FILES, render
from mtlrun.lab.report.summary import read_overview, render_overview

RESULTS = Path(__file__).parents[3] / "results"
#: Rebuilds every run below a folder while all imports of solvers and data fail; prints
#: what it wrote and tried to import.
CODE = """
import hashlib, importlib.abc, json, sys
from pathlib import Path

REFUSED = ("mtlrun.solvers", "mtlrun.estimators", "mtlrun.data", "mtlrun.features", "mtlrun.model")
REFUSED += ("mtlrun.comparison", "mtlrun.lab.plan", "mtlrun.papers")
REFUSED += tuple(f"mtlrun.engine.{name}" for name in ("job", "fit", "run", "plan", "pool", "compute"))
REFUSED += ("sklearn.linear_model", "sklearn.svm", "sklearn.ensemble", "torch", "numba", "dask", "skops")
# Parameters and their rules as data, without any estimator.
LIGHT = ("mtlrun.estimators", "mtlrun.estimators.declarations")

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in LIGHT and any(name == one or name.startswith(one + ".") for one in REFUSED):
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Refuse())
from mtlrun.lab.report.build import build_report
from mtlrun.lab.report.summary import read_overview, render_overview
from mtlrun.lab.report.formats import FILES, render

root, pages = Path(sys.argv[1]), sys.argv[2:]
found = {}
for path in sorted(root.glob("[!r]*/*/*/run.json")):
    report = build_report(path.parent)
    texts = {name: writer(report) for name, writer in FILES.items()}
    place = path.parent.relative_to(root).as_posix()
    if place in pages:
        texts["report.html"] = render(report, "html")
    found[place] = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
if pages:
    overview = read_overview(root)
    summaries = {form: render_overview(overview, form, root) for form in ("md", "json", "html")}
    found["all"] = {form: hashlib.sha256(text.encode()).hexdigest() for form, text in summaries.items()}
print(json.dumps(found))
"""
#: Rebuilt runs, with all kinds of tables and figures, and those with pages
FEW = ["dcrmtl/table1/real", "fetr/fig3/quick", "mtsvm/fig3/quick"]
PAGES = ["mtsvm/fig3/quick"]


def rebuild(
    root: Path, cwd: Path, *pages: str, **variables: str
) -> dict[str, dict[str, str]]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MTLRUN_DATA", "PYTHONHASHSEED")
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(root), *pages],
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.rendered
@pytest.mark.slow
def test_bytes_do_not_depend_on_place_language_and_time_zone(tmp_path):
    home, few = tmp_path / "home", tmp_path / "few"
    home.mkdir()
    for name in FEW:
        (few / name).parent.mkdir(parents=True, exist_ok=True)
        (few / name).symlink_to(RESULTS / name)
    (tmp_path / "linked").symlink_to(few)
    elsewhere = {
        "TZ": "Asia/Kathmandu",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "7",
        "CI": "1",
    }
    elsewhere |= {
        "HOME": str(home),
        "MPLCONFIGDIR": mpl.get_cachedir(),
    }  # Otherwise the search for fonts takes seconds.
    rebuilt = rebuild(tmp_path / "linked", tmp_path, *PAGES, **elsewhere, COLUMNS="40")
    here = read_overview(few)
    assert rebuilt.pop("all") == {
        form: digest(render_overview(here, form, few))
        for form in ("md", "json", "html")
    }
    for folder in PAGES:
        assert rebuilt[folder].pop("report.html") == digest(
            render(build_report(few / folder), "html")
        )
    assert set(rebuilt) == set(FEW)
    for folder, texts in rebuilt.items():
        assert texts == {
            name: digest((RESULTS / folder / name).read_text(encoding="utf-8"))
            for name in FILES
        }


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
