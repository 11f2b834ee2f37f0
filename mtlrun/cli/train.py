"""The commands ``mtlrun init`` and ``mtlrun train``.

``init`` writes a commented training file for a data set and a method, or an experiment
to start from. ``train`` fits the model that a training file describes, evaluates and
saves it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import ensure_data, open_page, say, write_or_print
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import ConfigError, UserError
from mtlrun.utils.io import read_fields
from mtlrun.utils.outputs import check_ending
from mtlrun.utils.text import id_of, stem_of

if TYPE_CHECKING:
    from mtlrun.data.sets.cards import Card

#: Sources of data sets whose X holds strings of letters.
STRING_SOURCES = ("fasta", "uci:splice", "strings:")
#: Default method and metrics for targets that are numbers.
REGRESSION_DEFAULTS = ("JointFeatureMTL", ["nmse", "r2", "rmse"])
#: Default method and metrics for targets that are labels.
CLASSIFICATION_DEFAULTS = (
    "JointFeatureMTLClassifier",
    ["auc", "balanced_accuracy", "accuracy"],
)
#: Setting of features that are strings, with its comment in the file.
ONE_HOT = """\
# One 0/1 column per position and letter; for k-mers: {kind: weighted-degree, degree: 5}.
features: one-hot"""
#: Setting of features of a table of the user, with its comment in the file.
TABLE = """\
# As in `mtlrun compare`: categories become 0/1 columns, gaps are filled, and numbers are
# standardized (mean 0, variance 1), all learned on the training rows.
features: table"""
#: Setting of features that are numbers, with its comment in the file.
STANDARDIZE = """\
# Scaling of the features, learned on the training rows: standardize (mean 0,
# variance 1; sparse features are not centered) or max-abs (keeps zeros). Without it,
# the penalty acts unequally on features of different scale, and solvers need many
# more iterations.
features: standardize"""


def init(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATASET]",
            help="Name of a data set, see `mtlrun data list`.",
            autocompletion=options.datasets,
        ),
    ] = None,
    method: Annotated[
        str | None,
        options.option(
            None,
            "NAME",
            "Method from `mtlrun list methods`, or package.module:Class. Default: one "
            "that shares features.",
            "--method",
            "-m",
            autocompletion=options.methods,
        ),
    ] = None,
    experiment: Annotated[
        str | None,
        options.option(
            None,
            "NAME",
            "Write an experiment instead, with the table of its published numbers: "
            "NAME.yaml and NAME.csv. It runs as it is.",
            "--experiment",
            "-e",
        ),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help=(
                "Write the JSON schema of all configuration files instead, for "
                "completion in an editor."
            ),
        ),
    ] = False,
    data_dir: options.DataDir = None,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Overwrite an existing file.")
    ] = False,
    output: Annotated[
        Path | None,
        options.option(
            None,
            "FILE",
            "File to write, - for the terminal. Default: <DATASET>.yaml or <NAME>.yaml.",
            "--out",
            "--output",
            "-o",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Write a commented training file for a data set, ready for `mtlrun train`, or an
    experiment for `mtlrun reproduce`.
    """
    if experiment is not None:
        if dataset or method or schema:
            raise UserError(
                "--experiment goes with none of a data set, --method and --schema",
                "Change data and methods in the file that it writes.",
            )
        from mtlrun.lab.experiment.spec import experiment_id

        id = experiment
        if "/" not in experiment:
            id = f"mine/{experiment}"
        try:
            experiment_id(id)
        except ValueError as error:
            raise UserError(
                f"--experiment {error}",
                "For instance: mtlrun init --experiment table1",
            ) from None
        path = output or Path(f"{id.rpartition('/')[2]}.yaml")
        check_ending(path, [".yaml", ".yml"], "Choose another file with --output.")
        folder = Path(__file__).parent
        template = Template((folder / "experiment.yaml").read_text(encoding="utf-8"))
        quoted_path = shlex.quote(str(path))
        text = template.substitute(path=quoted_path, id=id, stem=path.stem)
        files = {path: text}
        if str(path) != "-":
            table = (folder / "experiment.csv").read_text(encoding="utf-8")
            files[path.with_suffix(".csv")] = table
        _write(files, force, [".yaml", ".yml", ".csv"])
        if str(path) != "-":
            say(f"next: mtlrun reproduce {quoted_path}")
        return
    if schema:
        from mtlrun.lab.experiment.schema import config_schema

        text = json.dumps(config_schema(), indent=1) + "\n"
        _write({output or Path("config.schema.json"): text}, force, [".json"])
        return
    if dataset is None:
        raise UserError(
            "no data set named",
            "Choose one from `mtlrun data list`, then: mtlrun init NAME",
        )
    from mtlrun.data.sets.cards import load_card
    from mtlrun.data.sets.files import data_directory

    card = load_card(dataset, data_directory(data_dir))
    path = output or Path(f"{dataset}.yaml")
    text = training_file(card, method, str(path), data_dir)
    _write({path: text}, force, [".yaml", ".yml"])
    if str(path) != "-":
        say(f"next: {_command(str(path), data_dir)}")


def _command(path: str, data_dir: Path | None) -> str:
    return f"mtlrun train {shlex.quote(path)}{options.data_dir_option(data_dir)}"


def training_file(
    card: Card, method: str | None, path: str, data_dir: Path | None = None
) -> str:
    """Return the text of a training file.

    Parameters
    ----------
    card : Card
    method : str or None
        None for a method that shares features between the tasks.
    path : str
        File that the text will be written to; a comment names it.
    data_dir : Path, default=None
        Value of --data-dir; a comment names it.

    Raises
    ------
    UnknownNameError
        For an unknown method.
    ConfigError
        If the method cannot be used with data of this kind.
    """
    is_regression = card.task_type == "regression"
    defaults = REGRESSION_DEFAULTS if is_regression else CLASSIFICATION_DEFAULTS
    default_method, metrics = defaults
    name = method or default_method
    if is_regression and card.design == "ragged":
        # The variance of the few rows of a task in a fold, by which the normalized
        # error is divided, may be near 0.
        metrics = ["rmse", "nmse", "r2"]
    features = STANDARDIZE
    if card.source.name == "table":
        features = TABLE
    elif card.source.name.startswith(STRING_SOURCES):
        features = ONE_HOT
    # The folder of results has the name of the file, so that two files for one data set
    # have two folders.
    if path == "-":
        class_name = name.rpartition(":")[2]
        stem = re.sub("[^A-Za-z0-9_-]+", "-", f"{card.id}-{class_name}")
    else:
        stem = stem_of(path)
        if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]*", stem):
            stem = id_of(stem)
    template_path = Path(__file__).parent / "training.yaml"
    template = Template(template_path.read_text(encoding="utf-8"))
    return template.substitute(
        command=_command(path, data_dir),
        stem=stem,
        title=json.dumps(f"{name} on {card.title}", ensure_ascii=False),
        dataset="\n".join(_dataset_lines(card)),
        method="\n".join(_method_lines(name, card)),
        features=features,
        metric=metrics[0],
        metrics=", ".join(metrics),
    )


def _dataset_lines(card: Card) -> list[str]:
    sizes = []
    for key, unit in (("n", "rows"), ("d", "features"), ("tasks", "tasks")):
        if key in card.statistics:
            sizes.append(f"{card.statistics[key]} {unit}")
    title = card.title
    if sizes:
        title += f" ({', '.join(sizes)})"
    lines = [f"# {title}."]
    if card.variants:
        lines.append(f"# Variants: {', '.join(card.variants)}.")
        lines.append(f"# Choose one with {{id: {card.id}, variant: ...}}.")
    lines.append(f"# To try it on part of the rows: {{id: {card.id}, sample: 500}}.")
    if card.task_type == "multiclass":
        lines.append(
            "# One task per class; one-vs-one makes one task per pair of classes."
        )
        return [*lines, f"dataset: {{id: {card.id}, tasks: one-vs-rest}}"]
    return [*lines, f"dataset: {card.id}"]


def _method_lines(name: str, card: Card) -> list[str]:
    from mtlrun.catalog.registry import get_method

    info = None if ":" in name else get_method(name)
    if info is None or info.foreign:
        return [
            "method:",
            f"  estimator: {name}",
            "  params: {}",
            "  grid: {}    # parameter: [values]",
        ]
    if info.kind == "classifier" and card.task_type == "regression":
        raise ConfigError(
            f"{name} is a classifier, but the targets of {card.id} are numbers",
            "Choose another: mtlrun list methods",
        )
    lines = [f"# {info.summary}; {info.source}.", f"# Minimizes {info.objective}."]
    if len(info.losses) > 1:
        lines.append(f"# Its parameter loss is one of {', '.join(info.losses)}.")
    lines += ["method:", f"  estimator: {name}"]
    if any(key.startswith("base__") for key in info.default_grid):
        # The parameters of the grid belong to the method that is fitted to each block.
        lines += ["  params:", "    base: {estimator: RobustMTL}"]
    else:
        lines.append("  params: {}")
    lines.append("  grid:")
    for key, values in info.default_grid.items():
        lines.append(f"    {key}: {json.dumps(list(values))}")
    if info.fast:
        lines.append(
            "  # Used only for the search: a faster solver of the same objective."
        )
        lines.append(f"  select_with: {json.dumps(info.fast)}")
    return lines


def _write(files: Mapping[Path, str], force: bool, endings: Sequence[str]) -> None:
    """Write the text of each file; if one of them exists, write none."""
    for path in files:
        check_ending(path, endings, "Choose another file with --output.")
        if str(path) != "-" and path.is_file() and not force:
            raise UserError(
                f"{path} already exists",
                "Add --force to overwrite it, or choose another file with --output.",
            )
    for path, text in files.items():
        if write_or_print(text, path, "Choose another file with --output."):
            say(f"written: {path}")


# ---------------------------------------------------------------------- train


def train(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            help=(
                "Training file, or the name of one that comes with mtlrun, for example "
                "train/school."
            ),
            autocompletion=options.trainings,
        ),
    ],
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    data_dir: options.DataDir = None,
    drop_rows: Annotated[
        bool,
        options.option(
            options.WHAT,
            None,
            "Leave out rows with cells far from all others, and many repeated rows, as "
            "mtlrun data check finds them. For tables of `mtlrun compare`.",
            "--drop-rows",
        ),
    ] = False,
    clip: Annotated[
        bool,
        options.option(
            options.WHAT,
            None,
            "Replace numbers far from all others by the nearest of the others. For "
            "tables of `mtlrun compare`.",
            "--clip",
        ),
    ] = False,
    jobs: options.Jobs = 1,
    backend: options.Backend = None,
    scheduler: options.Scheduler = None,
    force: Annotated[
        bool,
        options.option(
            options.HOW,
            None,
            "Recompute everything, and replace a model that was trained with other "
            "settings.",
            "--force",
            "-f",
        ),
    ] = False,
    retries: options.Retries = 0,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    show: options.Open = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Train one model: tune its parameters, fit it, evaluate it on test rows and save
    it.

    The model, its metrics, the predictions of the test rows and a page are written to
    DIR/<id of the training file>. `mtlrun init` writes a training file to start from.
    """
    from mtlrun.lab.experiment.load import chunk_training, load_training
    from mtlrun.lab.training import train as fit
    from mtlrun.model.baseline import TrainingResult, baseline_warnings
    from mtlrun.model.explanation import saved_part_lines
    from mtlrun.model.train import PAGE, parameter_lines, score_lines
    from mtlrun.parallel.pool import Pool
    from mtlrun.parallel.progress import make_progress

    if config.endswith((".yaml", ".yml")) and not Path(config).exists():
        raise ConfigError(
            f"{config}: no such file",
            "Write one to start from: mtlrun init DATASET (see mtlrun data list).",
        )
    overrides = list(overrides or ())
    if drop_rows:
        overrides.append("dataset.drop_rows=true")
    if clip:
        overrides.append("dataset.clip=true")
    progress = make_progress(quiet=quiet)
    chunked = chunk_training(config, overrides, seed)
    if chunked is not None:
        from mtlrun.chunks.train import train_chunks

        pool = Pool(jobs, backend, scheduler)
        trained = train_chunks(
            chunked, output=output_dir, pool=pool, force=force, say=progress.message
        )
    else:
        if backend or scheduler:
            raise ConfigError(
                "--backend and --scheduler apply only to training files with a `data` "
                "section",
                "Use --jobs.",
            )
        training = load_training(
            config, overrides=overrides, seed=seed, data_dir=data_dir
        )
        ensure_data(training, data_dir, yes=yes)
        trained = fit(
            training,
            output=output_dir,
            data_dir=data_dir,
            jobs=jobs,
            force=force,
            retries=retries,
            progress=progress,
        )
    if trained.up_to_date:
        say("up to date: this model has been trained before")
    result = read_fields(TrainingResult, trained.result)
    lines = [*parameter_lines(result), *score_lines(result)]
    for line in [*lines, *saved_part_lines(trained.folder)]:
        say(line)
    for line in baseline_warnings(result):
        say(f"warning: {line}", error=True, style="red")
    say(f"model: {trained.folder}")
    page = trained.folder / PAGE
    if page.is_file():
        say(f"report: {page}")
    if result.status != "ok":
        reason = result.solver.message
        if not reason:
            reason = "the solver stopped before it reached its tolerance"
        say(f"warning: not converged: {reason}", error=True)
    if show and page.is_file():
        open_page(page)
