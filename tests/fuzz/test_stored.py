"""Altered models and records cause an error naming the file, or still valid results.

``python -m pytest tests/fuzz/test_stored.py --fuzz-examples 2000`` tries 2,000
alterations.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import stored
from alteration import alter_file
from fuzztargets import LONGEST, HangError, limited

from mtlrun.utils.io import DIGEST, sealed

#: Fitting a model of each type takes half a minute, so these run with the slow tests
#: and in the fuzzing step of CI.
pytestmark = pytest.mark.slow

#: Regular exit codes: done, a job failed or disagrees, invalid input
CODES = (0, 1, 2)
#: Types of models of which one is written, if few examples are tried. All of them are
#: saved and loaded in tests/model/test_files.py.
TYPES_PER_MODEL = 10
#: Files in the folder of a model
MODEL_FILES = ("model.skops", "model.json", "coefficients.npz")


@pytest.fixture(scope="module")
def models(
    tmp_path_factory: pytest.TempPathFactory, few_trees: None, fuzz_examples: int
) -> list[tuple[Path, Path]]:
    """Return folders of models, also of comparisons, each with new rows.

    With few examples, the models are of one type in `TYPES_PER_MODEL`.
    """
    root = tmp_path_factory.mktemp("models")
    step = 1 if fuzz_examples >= 100 else TYPES_PER_MODEL
    items = list(stored.write_models(root, step))
    return items + [
        (folder / "model", table) for folder, table in stored.write_comparisons(root)
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run."""
    return stored.write_run(tmp_path_factory.mktemp("run"))


def mend_digests(rng: random.Random, folder: Path) -> None:
    """Update the digests of a model to match its files, usually, as a forger would."""
    facts = json.loads((folder / "model.json").read_text())
    if rng.random() < 0.85:
        for name in facts["files"]:
            if (folder / name).exists():
                content = (folder / name).read_bytes()
                facts["files"][name] = hashlib.sha256(content).hexdigest()
        facts.pop(DIGEST)
        (folder / "model.json").write_text(json.dumps(sealed(facts)))


def check(words: tuple[object, ...], names: tuple[str, ...], seed: int) -> int:
    """Run a command on altered files, and return its exit code.

    Raises
    ------
    AssertionError
        If it hangs, takes too much memory, ends in another way than with a message, or
        the message names no file.
    """
    description = f"seed {seed}: mtlrun {' '.join(map(str, words))}"
    try:
        with limited():
            code, text = stored.run_command(*words)
    except HangError:
        raise AssertionError(f"{description}: too slow") from None
    assert "Traceback" not in text, f"{description}: {text[-2000:]}"
    assert "is a bug" not in text, f"{description}: {text[-2000:]}"
    assert code in CODES, f"{description}: exit code {code}: {text[-2000:]}"
    assert len(text) < LONGEST, f"{description}: a message of {len(text)} characters"
    if code == 2:
        assert any(name in text for name in names), f"{description}: no file in {text}"
    return code


def altered(
    source: Path, folder: Path, names: tuple[str, ...], seed: int
) -> random.Random:
    """Copy a folder and alter one of its files; return the random generator in its
    state after that.
    """
    rng = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    files = [folder / name for name in names if (folder / name).exists()]
    file = rng.choice(files)
    file.write_bytes(alter_file(rng, file.as_posix(), file.read_bytes()))
    if file.name != "model.json" and (folder / "model.json").exists():
        mend_digests(rng, folder)
    return rng


def each_seed(n: int, n_cases: int) -> Iterator[tuple[int, int]]:
    """Yield seeds, each with its case."""
    for seed in range(n):
        yield seed, seed % n_cases


@pytest.mark.rendered
def test_altered_models_predict_or_are_rejected_by_name(
    models: list[tuple[Path, Path]], tmp_path: Path, fuzz_examples: int
) -> None:
    refused = 0
    n_examples = max(30, fuzz_examples)
    for seed, case in each_seed(n_examples, len(models)):
        source, table = models[case]
        folder = tmp_path / "model"
        rng = altered(source, folder, MODEL_FILES, seed)
        words: tuple[object, ...] = ("predict", folder, table, "-o", tmp_path / "p.csv")
        if rng.random() < 0.1:
            kind = rng.choice(["coefficients", "tasks"])
            words = ("plot", folder, "--kind", kind, "-o", tmp_path / "p.svg")
        refused += check(words, (str(folder), str(table)), seed) == 2
    assert refused > n_examples / 3, "too few models are refused"


def _commands(root: Path, folder: Path) -> list[tuple[object, ...]]:
    named = (root / "e.yaml", "--profile", "full", "-o", root / "runs")
    return [
        ("report", folder),
        ("report", root / "runs"),
        ("status", *named),
        ("verify", folder, "--sample", 2),
        ("reproduce", *named, "--quiet"),
        ("plot", folder, "--kind", "heatmap", "-o", root / "p.svg"),
    ]


@pytest.mark.rendered
def test_altered_records_are_named_or_recomputed(
    run: Path, tmp_path: Path, fuzz_examples: int
) -> None:
    home = run.parents[3]
    names = tuple(
        sorted(
            path.relative_to(home).as_posix()
            for path in (home / "runs").rglob("*")
            if path.suffix in (".json", ".gz", ".npz", ".xz")
        )
    )
    for seed in range(fuzz_examples):
        rng = altered(home, tmp_path / "home", names, seed)
        folder = tmp_path / "home" / run.relative_to(home)
        commands = _commands(tmp_path / "home", folder)
        check(rng.choice(commands), (str(tmp_path / "home"),), seed)


def test_an_unaltered_model_and_run_are_accepted(
    models: list[tuple[Path, Path]], run: Path, tmp_path: Path
) -> None:
    for folder, table in models:
        words = ("predict", folder, table, "-o", tmp_path / "p.csv")
        assert stored.run_command(*words)[0] == 0, folder.name
    for words in _commands(run.parents[3], run)[:5]:
        code, text = stored.run_command(*words)
        assert code == 0, text
