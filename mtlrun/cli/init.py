"""``mtlrun init``: write a commented training file for a data set and a method."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say
from mtlrun.errors import ConfigError, UserError

if TYPE_CHECKING:
    from mtlrun.data.cards import Card
    from mtlrun.estimators.registry import MethodInfo

#: Sources of data sets whose X holds strings of letters.
STRING_SOURCES = ("fasta", "uci:splice", "strings:")
METRICS = {
    "regression": ["nmse", "r2", "rmse"],
    "binary": ["auc", "balanced_accuracy", "accuracy"],
}
DEFAULT_METHODS = {"regression": "JointFeatureMTL", "binary": "JointFeatureMTLClassifier"}

Dataset = Annotated[str | None, typer.Argument(metavar="[DATASET]", help="Name of a data set (mtlrun data list).")]
Method = Annotated[
    str | None,
    typer.Option(
        "--method", "-m", metavar="NAME", help="A registered method (mtlrun list methods) or package.module:Class."
    ),
]
File = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write, - for the terminal; default <DATASET>.yaml."),
]
Schema = Annotated[
    bool,
    typer.Option("--schema", help="Write the JSON schema of all such files for your editor (config.schema.json)."),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the file.")]


def init(
    dataset: Dataset = None,
    method: Method = None,
    schema: Schema = False,
    data_dir: options.DataDir = None,
    force: Force = False,
    output: File = None,
    debug: options.Debug = False,
) -> None:
    """Write a commented training file, ready for `mtlrun train`."""
    if schema:
        from mtlrun.runs.editor import config_schema

        _write(json.dumps(config_schema(), indent=1) + "\n", output or Path("config.schema.json"), force)
        return
    if dataset is None:
        raise UserError("which data set?", "mtlrun data list shows them; then: mtlrun init NAME")
    from mtlrun.data.cards import load_card
    from mtlrun.data.files import data_directory

    card = load_card(dataset, data_directory(data_dir))
    path = output or Path(f"{dataset}.yaml")
    _write(training_file(card, method, str(path), data_dir), path, force)
    if str(path) != "-":
        say(f"next: {_command(str(path), data_dir)}")


def _command(path: str, data_dir: Path | None) -> str:
    return f"mtlrun train {shlex.quote(path)}{options.data_dir_option(data_dir)}"


def training_file(card: Card, method: str | None, path: str, data_dir: Path | None = None) -> str:
    """Return the text of a training file.

    Parameters
    ----------
    card : Card
    method : str or None
        Default: one that shares features between the tasks.
    path : str
        Where the text will be written; named in a comment.
    data_dir : Path, optional
        As given by --data-dir; named in a comment.

    Raises
    ------
    UnknownNameError
        For an unknown method.
    ConfigError
        If the method is none for data of this kind.
    """
    binary = card.task_type != "regression"
    name = method or DEFAULT_METHODS["binary" if binary else "regression"]
    metrics = METRICS["binary" if binary else "regression"]
    ident = f"train/{_stem(path, card, name)}"
    lines = [
        f"# Training file of mtlrun. Run it with: {_command(path, data_dir)}",
        "# Any value can be changed for one run: mtlrun train ... --set split.train=0.5",
        "# Completion in your editor: mtlrun init --schema, then name that file in the line below.",
        "# yaml-language-server: $schema=config.schema.json",
        "schema: 1",
        "kind: train",
        f"id: {ident}    # the results lie in results/runs/{ident}",
        f"title: {json.dumps(f'{name} on {card.title}', ensure_ascii=False)}",
        "",
        *_dataset_lines(card),
        "",
        *_method_lines(name, card),
        "",
        *_feature_lines(card),
        "",
        "# A part of the rows (of every task, where tasks have their own) is for training, the rest is for test.",
        "# Splits that come with a data set: {kind: published, name: ...}, see mtlrun data info.",
        "split: {kind: random, train: 0.7}",
        "",
        "# The grid is searched by cross-validation inside the training rows.",
        f"selection: {{folds: 3, metric: {metrics[0]}}}",
        "",
        "# Measured on the test rows, task by task, then averaged over tasks (sample: tasks count as they have rows).",
        f"metrics: [{', '.join(metrics)}]",
        "average: task",
        "",
        "seed: 0        # of the split, the folds and the method",
        "refit: false   # true: after the evaluation, the model that is saved is fitted on all rows",
    ]
    return "\n".join(lines) + "\n"


def _stem(path: str, card: Card, method: str) -> str:
    """Return a name for the results: that of the file, so that two files on one data set keep theirs apart."""
    text = Path(path).name.partition(".")[0] if path != "-" else f"{card.id}-{method.rpartition(':')[2]}"
    return re.sub("[^A-Za-z0-9_-]+", "-", text).lstrip("-_") or card.id


def _dataset_lines(card: Card) -> list[str]:
    facts = card.statistics
    size = ", ".join(
        f"{facts[key]} {word}" for key, word in (("n", "rows"), ("d", "features"), ("tasks", "tasks")) if key in facts
    )
    lines = [f"# {card.title}{f' ({size})' if size else ''}."]
    if card.variants:
        lines.append(f"# Variants: {', '.join(card.variants)}; chosen as {{id: {card.id}, variant: ...}}.")
    lines.append(f"# A quick try on a part of the rows: {{id: {card.id}, sample: 500}}.")
    if card.task_type == "multiclass":
        lines.append("# One task per class; one-vs-one makes a task of every pair of classes.")
        return [*lines, f"dataset: {{id: {card.id}, tasks: one-vs-rest}}"]
    return [*lines, f"dataset: {card.id}"]


def _method_lines(name: str, card: Card) -> list[str]:
    lines = ["# Others: mtlrun list methods; any scikit-learn estimator of your own: package.module:Class."]
    if ":" in name:
        return [*lines, "method:", f"  estimator: {name}", "  params: {}", "  grid: {}    # parameter: [values]"]
    from mtlrun.estimators.registry import get_method

    info = get_method(name)
    if info.kind == "classifier" and card.task_type == "regression":
        raise ConfigError(
            f"{name} is a classifier, {card.id} has numbers as targets", "mtlrun list methods shows others."
        )
    lines += [f"# {info.summary}; {info.source}.", f"# Minimises {info.objective}."]
    if len(info.losses) > 1:
        lines.append(f"# Its parameter loss is one of {', '.join(info.losses)}.")
    return [*lines, "method:", f"  estimator: {name}", *_parameter_lines(info)]


def _parameter_lines(info: MethodInfo) -> list[str]:
    lines = ["  params: {}"]
    if any(key.startswith("base__") for key in info.default_grid):
        # The parameters searched are those of the method that is fitted to every block.
        lines = ["  params:", "    base: {estimator: RobustMTL}"]
    lines.append("  grid:")
    lines += [f"    {key}: {json.dumps(list(values))}" for key, values in info.default_grid.items()]
    if info.fast:
        lines.append(
            f"  # Only for the search: a faster way to the same objective.\n  select_with: {json.dumps(info.fast)}"
        )
    return lines


def _feature_lines(card: Card) -> list[str]:
    if card.source.name.startswith(STRING_SOURCES):
        return [
            "# Strings become one 0/1 column per position and base; k-mers: {kind: weighted-degree, degree: 5}.",
            "features: one-hot",
        ]
    return [
        "# What is done to X first, learned on the training rows: standardize (mean 0, variance 1; a sparse X is only",
        "# divided) or max-abs (keeps zeros). Without this line X stays as it is: strengths differ from feature to",
        "# feature, and solvers need many more iterations.",
        "features: standardize",
    ]


def _write(text: str, path: Path, force: bool) -> None:
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    if path.exists() and not force:
        raise UserError(f"{path} exists", "Say --force to overwrite it, or --output FILE.")
    from mtlrun.utils.io import write_atomic, writing

    with writing(path, "Name another place by --output FILE."):
        write_atomic(path, text)
    say(f"written: {path}")
