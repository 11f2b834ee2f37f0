"""Reports are rebuilt byte for byte on a machine that has neither data nor solvers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mtlrun.report.writers import FILES

RESULTS = Path(__file__).parents[2] / "results"
#: Rebuilds every run below a folder with everything refused that computes; tells what it wrote and what was asked for.
CODE = """
import hashlib, importlib.abc, json, sys
from pathlib import Path

REFUSED = ("mtlrun.solvers", "mtlrun.estimators", "mtlrun.data", "mtlrun.runs", "mtlrun.features")
REFUSED += ("sklearn.linear_model", "sklearn.svm", "sklearn.ensemble", "torch", "numba", "dask", "skops")

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in REFUSED):
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Refuse())
from mtlrun.report.build import build_report
from mtlrun.report.summary import read_overview, render_overview
from mtlrun.report.writers import FILES, render

root, pages = Path(sys.argv[1]), sys.argv[2:]
found = {}
for path in sorted(root.glob("[!r]*/*/*/run.json")):
    report = build_report(path.parent)
    texts = {name: writer(report) for name, writer in FILES.items()}
    place = path.parent.relative_to(root).as_posix()
    if place in pages:
        texts["report.html"] = render(report, "html")
    found[place] = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
overview = read_overview(root)
pages = {form: render_overview(overview, form, root) for form in ("md", "json", "html")}
found["all"] = {form: hashlib.sha256(text.encode()).hexdigest() for form, text in pages.items()}
print(json.dumps(found))
"""
#: Runs whose pages are made, with heat maps.
PAGES = ["fetr/fig3/quick"]


def rebuild(root: Path, cwd: Path, **variables: str) -> dict[str, dict[str, str]]:
    kept = {name: value for name, value in os.environ.items() if name not in ("MTLRUN_DATA", "PYTHONHASHSEED")}
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(root), *PAGES],
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(900)
def test_the_same_bytes_without_data_and_solvers(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "results").symlink_to(RESULTS)
    there = {"TZ": "America/Lima", "LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "1", "COLUMNS": "40"}
    elsewhere = {"TZ": "Asia/Kathmandu", "LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "7", "CI": "1"}
    elsewhere |= {"HOME": str(home), "MPLCONFIGDIR": str(home)}
    with ThreadPoolExecutor(2) as both:
        other = both.submit(rebuild, tmp_path / "results", tmp_path, **elsewhere)
        first = rebuild(RESULTS, RESULTS, **there)
    assert first == other.result()
    committed = {
        path.parent.relative_to(RESULTS).as_posix(): {
            name: hashlib.sha256((path.parent / name).read_bytes()).hexdigest() for name in FILES
        }
        for path in sorted(RESULTS.glob("[!r]*/*/*/run.json"))
    }
    ours = {place: {n: h for n, h in texts.items() if n in FILES} for place, texts in first.items() if place != "all"}
    assert ours == committed
    assert first["all"]["md"] == hashlib.sha256((RESULTS / "summary.md").read_bytes()).hexdigest()
    assert {place for place, texts in first.items() if "report.html" in texts} == set(PAGES)
