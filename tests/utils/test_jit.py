"""Functions are compiled on first use, once, and cached on disk if possible."""

import ast
import importlib
import inspect
import json
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from mtlrun.estimators.penalized import JointFeatureMTL, SparseMTL
from mtlrun.features import rows
from mtlrun.solvers.convex import cd
from mtlrun.solvers.svm import sweeps
from mtlrun.utils.jit import compiled

BY_BLAS = """
import sys, numpy as np
from mtlrun.estimators import JointFeatureMTL, RobustMTL, TraceNormMTL, TraceNormMTLClassifier, GraphMTL, FETR
X = np.random.default_rng(0).normal(size=(30, 3)); Y = X @ np.ones((3, 4)) + X[:, :1]
for model in (TraceNormMTL(), RobustMTL(lam=0.7), GraphMTL(), FETR(), JointFeatureMTL(solver="admm")):
    model.fit(X, Y)
JointFeatureMTL().fit(X, Y[:, 0], task_id=np.arange(30) % 3)
TraceNormMTLClassifier().fit(X, np.sign(Y))
print("numba" in sys.modules)
"""


FIRST_FIT = """
import json, sys
import numpy as np
from numba.core import event
from mtlrun import estimators
X = np.random.default_rng(0).normal(size=(60, 5)); task = np.arange(60) % 3
model = getattr(estimators, sys.argv[1])(**json.loads(sys.argv[2]))
with event.install_recorder("numba:compile") as recorder:
    model.fit(X, np.sign(X[:, 0]), task_id=task)
print(sum(entry.is_start for _, entry in recorder.buffer))
"""


@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("method", "options", "most"),
    [("IndependentLasso", {}, 2), ("GraphSVC", {"solver": "dcd"}, 25)],
)
def test_the_first_fits_compile_few_functions(tmp_path, method, options, most):
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path),
        # Functions are counted; how fast they are does not matter.
        "NUMBA_OPT": "0",
    }
    run = subprocess.run(
        [sys.executable, "-c", FIRST_FIT, method, json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert 1 <= int(run.stdout) <= most


@pytest.mark.slow
def test_models_of_matrix_products_do_not_import_the_compiler(forked, tmp_path):
    def fit():
        # As in a new process; other packages do not import the compiler.
        for name in list(sys.modules):
            if name.partition(".")[0] in ("mtlrun", "numba"):
                del sys.modules[name]
        exec(BY_BLAS, {})

    process = forked(fit, tmp_path, os.environ)
    output, errors = process.communicate()
    assert output.strip() == "False", errors


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_every_kind_of_data_runs_the_same_code():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 200)) * (rng.random((40, 200)) < 0.3)
    Y = X[:, :3] @ rng.normal(size=(3, 4))
    for model in (
        JointFeatureMTL(solver="cd", max_iter=30),
        SparseMTL(solver="cd", max_iter=30),
    ):
        for design in (
            X,
            sp.csr_array(X),
            X[:, :5].astype(np.float32),
            np.asfortranarray(X[:, :5]),
        ):
            model.fit(design, Y)
    kernels = [value for value in vars(cd).values() if hasattr(value, "signatures")]
    assert max(len(kernel.signatures) for kernel in kernels) == 1


def integers_in_calls(module):
    """Return the calls of compiled functions with an integer written out."""
    compiled_names = {
        name
        for name, value in vars(module).items()
        if hasattr(value, "__wrapped__") and not isinstance(value, type)
    }
    calls = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_call and node.func.id in compiled_names:
            values = [ast.unparse(value) for value in node.args]
            calls.append((node.func.id, [v for v in values if v.lstrip("-").isdigit()]))
    return calls


@pytest.mark.parametrize("module", [rows, sweeps])
def test_no_function_is_compiled_once_more_for_an_integer_constant(module):
    # numba has a type of its own for a constant, and compiles for each type.
    calls = integers_in_calls(module)
    assert calls
    assert [call for call in calls if call[1]] == []


def test_only_rows_of_strings_compile_how_strings_are_expanded():
    assert rows.make_rows(np.ones((2, 2))).strings is None
    assert rows.make_rows(sp.csr_array(np.ones((2, 2)))).strings is None


@compiled
def double(x):
    return 2.0 * x


@compiled
def quadruple(x):
    return double(double(x))


def test_an_unwritable_folder_only_disables_the_cache(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "folder"))
    assert quadruple(2.5) == 10.0
    assert double(1.0) == 2.0


INSIDE = """
from mtlrun.utils.jit import inner
from kernels import constants
@inner
def times(x):
    return {more} + x * constants.FACTOR
"""
OUTSIDE = """
from mtlrun.utils.jit import compiled
from kernels.inside import times
@compiled
def twice(x):
    return 2.0 * times(x)
print(twice(1.0), sum(twice.stats.cache_hits.values()))
"""


@pytest.fixture
def modules(tmp_path, forked):
    """Write three modules, one compiled and run by `call`, which returns its number and
    the count of cache hits.
    """
    cache, package = tmp_path / "cache", tmp_path / "kernels"
    cache.mkdir()
    package.mkdir()

    def write(factor=3.0, more=0.0, above=""):
        (package / "constants.py").write_text(f"FACTOR = {factor}")
        (package / "inside.py").write_text(above + INSIDE.format(more=more))
        (package / "outside.py").write_text(OUTSIDE)

    def import_kernels():
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(tmp_path))
        numba.config.CACHE_DIR = str(cache)
        importlib.import_module("kernels.outside")

    def call():
        process = forked(import_kernels, tmp_path, os.environ)
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        number, hits = output.split()
        return float(number), int(hits)

    write()
    return write, call, cache


@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_machine_code_depends_on_the_sources_of_everything_it_contains(modules):
    write, call, _ = modules
    assert call() == (6.0, 0)
    assert call() == (6.0, 1)
    write(more=1.0)
    assert call() == (8.0, 0)
    write(more=1.0, factor=4.0)
    assert call() == (10.0, 0)
    assert call() == (10.0, 1)


@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_machine_code_of_earlier_sources_is_removed_when_unused(modules):
    write, call, cache = modules
    call()
    (old,) = (cache / "kernels.inside").iterdir()
    write(above="\n\n")
    assert call() == (6.0, 0)
    assert old.exists()
    os.utime(old, (0, 0))
    assert call() == (6.0, 1)
    assert not old.exists()


@pytest.mark.cover
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize(
    "damage",
    [lambda old: b"", lambda old: b"garbage", lambda old: old[: len(old) // 2]],
)
def test_damaged_machine_code_is_compiled_again(modules, suffix, damage):
    _, call, cache = modules
    call()
    for file in cache.rglob(f"*{suffix}"):
        file.write_bytes(damage(file.read_bytes()))
    assert call() == (6.0, 0)
    assert call() == (6.0, 1)
