"""Numbers of jobs, analyses and data sets, with the versions of the code that computed
them.

A changed number needs a raised version, and a raised version a changed number. ``python
tests/test_golden.py --write`` stores the numbers of the present code if their version
was raised, and those of new cases; MTLRUN_DATA must contain the data sets.
"""

import functools
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mtlrun.catalog.analysis import ANALYSES
from mtlrun.catalog.methods import declared, versions_of
from mtlrun.data.dataset import Dataset
from mtlrun.data.sets.cards import card_paths, load_card, read_card
from mtlrun.data.sets.files import data_directory
from mtlrun.data.sets.load import READERS, load_dataset, source_name
from mtlrun.engine.job import Job, choice_of
from mtlrun.engine.run import compute_job
from mtlrun.errors import DataError
from mtlrun.lab.batch import artefacts
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan
from mtlrun.lab.verify import agreement_of, digits_of, estimator_names

STORED = Path(__file__).with_name("golden.json")

RAGGED = "{id: simulated-splice, n_tasks: 3}"
SHARED = "{id: simulated-rmtl, n: 60, d: 8, m: 6, rank: 2}"
BALANCED = "{id: gauss2d, n: 60}"

#: Splits, features, searches and metrics as sections of an experiment file
SPLITS = {
    "random": "split: {kind: random, train: 0.5}",
    "kfold": "split: {kind: kfold, folds: 3}",
    "kfold twice": "split: {kind: kfold, folds: 3, trials: 4}",
    "most of the rows": "split: {kind: random, train: 0.8}",
}
FEATURES = ("none", "standardize", "max-abs", "min-max", "unit-rows")
SEARCHES = {
    "none": ("", ""),
    "folds": ("selection: {folds: 2}", ", grid: {alpha: [0.1, 1, 10]}"),
    "by accuracy": (
        "selection: {folds: 3, metric: accuracy}",
        ", grid: {alpha: [0.1, 100]}",
    ),
}
SCORINGS = {
    "auc": "metrics: [auc]",
    "several": "metrics: [auc, average_precision, accuracy, f1]",
    "over rows": "metrics: [auc, balanced_accuracy]\naverage: sample",
}
#: Starts of the names of analyses that take less than a second each
QUICK_ANALYSES = ("atlas-gain", "fetr-", "mtmkl-")
METHODS = ("IndependentRidge", "SparseMTL", "PooledRidge", "TraceNormMTL")


def experiments() -> dict[str, str]:
    """Return experiment files of one method by name: each split with all features, and
    the other sections in turn.
    """
    texts = {}
    for i, (split, features) in enumerate((s, f) for s in SPLITS for f in FEATURES):
        for j in range(2):
            search, scoring = (list(part)[(i + j) % 3] for part in (SEARCHES, SCORINGS))
            method = METHODS[(i + 2 * j) % len(METHODS)]
            name = f"{method}, {split}, {features}, search: {search}, {scoring}"
            selection, grid = SEARCHES[search]
            texts[name] = "\n".join(
                [
                    f"schema: 1\nid: lab/golden\ntitle: Golden\nkind: evaluate\ndatasets: [{SHARED}]",
                    *filter(
                        None,
                        [
                            SPLITS[split],
                            SCORINGS[scoring],
                            selection,
                            f"features: {features}",
                        ],
                    ),
                    f"methods: [{{label: one, estimator: {method}{grid}}}]\n",
                ]
            )
    return texts


def numbers_of_cell(job: Job) -> dict[str, float | None]:
    """Return metrics, those of the first task, rows and the selected parameters."""
    chosen = {}
    if job.search is not None:
        selection = choice_of(
            job, [compute_job(fold, None, None)[0] for fold in job.folds]
        )
        chosen = selection.chosen
    record, _ = compute_job(job, chosen, None)
    first = {
        f"{name} of the first task": values[0]
        for name, values in record.per_task.items()
    }
    numbers = {f"chosen {name}": value for name, value in chosen.items()}
    return {**record.metrics, **first, **numbers, "rows": record.counts["n_train"]}


def cell_of(text: str, folder: Path) -> Job:
    """Return the last job of an experiment file."""
    path = folder / "golden.yaml"
    path.write_text(text)
    return plan(load_experiment(path), output=folder).rows[-1].job


@functools.cache
def planned(path: Path) -> list[Job]:
    """Return the jobs of an experiment in the profile ``smoke``."""
    experiment = load_experiment(path, profile="smoke")
    return [row.job for row in plan(experiment, output="nowhere").rows]


def job_of(name: str) -> Job:
    """Return the first job of an analysis.

    Only experiments whose files name the analysis are planned, since planning all of
    them takes longer than most of the jobs.
    """
    for entry in artefacts():
        if name in entry.path.read_text(encoding="utf-8"):
            for job in planned(entry.path):
                if job.method.measure == name:
                    return job
    raise LookupError(f"no experiment file names {name}")


def numbers_of_measure(job: Job) -> dict[str, float | None]:
    """Return the result of an analysis, rounded and without clocks."""
    record, _ = compute_job(job, None, None)
    compared = agreement_of(record, record)
    return {name: value for name, value in record.metrics.items() if name in compared}


def cards() -> Iterator[tuple[str, str]]:
    """Yield the name of each reader and generator with a card that uses it."""
    seen = set()
    for path in card_paths(data_directory(None)).values():
        card = read_card(path)
        if source_name(card) not in seen and card.id not in (
            "mediamill",
            "eurlex-dc",
            "breast-cancer",
        ):
            seen.add(source_name(card))
            yield source_name(card), card.id


#: One multilabel set that is read quickly
CARDS = {**dict(cards()), "reader:mulan": "enron"}

#: Smaller variants of large data sets, from the same reader or generator
VARIANTS = {"eurlex-like": "small", "mnist": "mtsvm-9000"}

#: A small data set of sequences: the files of the collection have 200,000.
SEQUENCES = {
    "id": "sequences",
    "title": "sequences",
    "task_type": "binary",
    "design": "ragged",
    "reader": {
        "name": "fasta",
        "options": {
            "label": "label=([+-]?1)",
            "tasks": [
                {"name": "first", "labelled": ["a.fasta"]},
                {"name": "second", "labelled": ["b.fasta"], "window": [5, 25]},
            ],
        },
    },
    "folder": "sequences",
    "files": [{"name": f"{name}.fasta", "sha256": "unknown"} for name in "ab"],
    "licence": "ours",
    "citation": "ours",
}


def load_sequences() -> Dataset:
    """Load `SEQUENCES` from files with random letters and labels."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        cards = Path(folder, "cards")
        cards.mkdir()
        (cards / "sequences.yaml").write_text(json.dumps(SEQUENCES))
        files = Path(folder, "sequences")
        files.mkdir()
        for name, length in (("a", 20), ("b", 30)):
            lines = []
            for number in range(50):
                label = rng.choice(["+1", "-1"])
                letters = "".join(rng.choice(list("ACGT"), size=length))
                lines += [f">{number} label={label}", letters]
            (files / f"{name}.fasta").write_text("\n".join(lines))
        return load_dataset("sequences", data_dir=folder)


def numbers_of_data(id: str) -> dict[str, float]:
    """Return sums that change with any value of a data set and with its position."""
    if source_name(load_card(id)) == "reader:fasta":
        data = load_sequences()
    else:
        data = load_dataset(id, variant=VARIANTS.get(id))
    strings = data.X.dtype.kind in "SU"
    X = (
        np.ascontiguousarray(data.X.astype("S"))
        .view(np.uint8)
        .reshape(data.n_samples, -1)
        if strings
        else data.X
    )
    parts = {
        "columns": np.asarray(X.sum(axis=0)),
        "lines": np.asarray(X.sum(axis=1)),
        "y": data.y,
    }
    sums = {}
    for name, values in parts.items():
        values = np.nan_to_num(np.asarray(values, dtype=float)).ravel()
        sums[name] = float(values @ np.cos(np.arange(values.size)))
    words = sum(ord(letter) for task in data.tasks for letter in str(task))
    return {
        **sums,
        "rows": data.n_samples,
        "features": data.n_features,
        "tasks": data.n_tasks,
        "letters": words,
    }


# --- the tests


def stored(name: str) -> dict:
    return json.loads(STORED.read_text(encoding="utf-8")).get(
        name, {"versions": None, "numbers": {}}
    )


@pytest.mark.parametrize("name", experiments())
def test_numbers_of_jobs_change_only_with_their_versions(
    name, tmp_path, monkeypatch, judge
):
    monkeypatch.chdir(tmp_path)
    job = cell_of(experiments()[name], tmp_path)
    judge(
        name,
        stored(name),
        {"versions": job.versions, "numbers": numbers_of_cell(job)},
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[] if name.startswith(QUICK_ANALYSES) else [pytest.mark.slow],
        )
        for name in ANALYSES
    ],
)
def test_numbers_of_analyses_change_only_with_their_versions(name, judge):
    job = job_of(name)
    digits = declared(name)[1].digits
    judge(
        name,
        stored(name),
        {"versions": job.versions, "numbers": numbers_of_measure(job)},
        digits,
    )


#: A source whose files take seconds
LARGE = ("reader:idx",)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else [])
        for name in CARDS
    ],
)
def test_data_sets_change_only_with_their_versions(source, request, judge):
    without_files = ("reader:digits", "reader:fasta")
    if source.startswith("reader:") and source not in without_files:
        request.applymarker(pytest.mark.data)
    try:
        numbers = numbers_of_data(CARDS[source])
    except DataError:
        pytest.skip(f"MTLRUN_DATA does not hold {CARDS[source]}")
    judge(
        source,
        stored(source),
        {"versions": versions_of([], source), "numbers": numbers},
        9,
    )


def test_all_readers_that_need_no_table_of_the_user_are_tested():
    assert {f"reader:{name}" for name in READERS} - {*CARDS} == {"reader:csv"}


def test_the_compared_fields_are_those_that_verify_compares():
    assert estimator_names(
        {"estimator": "A", "params": {"base": {"estimator": "B"}}}
    ) == [
        "A",
        "B",
    ]
    assert digits_of(1.0, 1.0) == 16
    assert digits_of(None, None) == 16
    assert digits_of(1.0, None) == 0
    assert 2.9 < digits_of(1.0, 1.001) < 3.1


def write() -> None:
    """Store the numbers of new cases and of raised versions."""
    warnings.simplefilter("ignore")
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    cases = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in experiments().items():
            job = cell_of(text, Path(folder))
            cases[name] = job.versions, functools.partial(numbers_of_cell, job)
    for name in ANALYSES:
        job = job_of(name)
        cases[name] = job.versions, functools.partial(numbers_of_measure, job)
    for source, id in CARDS.items():
        cases[source] = (
            versions_of([], source),
            functools.partial(numbers_of_data, id),
        )
    content = {}
    for name, (versions, numbers) in cases.items():
        same = stored.get(name, {}).get("versions") == versions
        content[name] = (
            stored[name] if same else {"versions": versions, "numbers": numbers()}
        )
    lines = [
        f"{json.dumps(name)}: {json.dumps(entry)}"
        for name, entry in sorted(content.items())
    ]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    write()
