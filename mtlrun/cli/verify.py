"""``mtlrun verify``: whether stored numbers are still what the present code computes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import say, writing
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.errors import UserError, counted

if TYPE_CHECKING:
    from mtlrun.runs.verify import Trial


def verify(
    target: options.Runs,
    profile: options.Profile = None,
    sample: Annotated[
        int | None, options.option(options.HOW, "N", "Compute N cells of every run again. Default: 20.", min=1)
    ] = None,
    seconds: Annotated[
        float | None, options.option(options.HOW, "S", "Compute as many cells again as S seconds suffice for.", min=0)
    ] = None,
    every: Annotated[bool, options.option(options.HOW, None, "Compute all finished cells again.", "--all")] = False,
    search: Annotated[
        bool, options.option(options.HOW, None, "Repeat the searches for parameters, too.", "--search")
    ] = False,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Compute finished cells of a run again and say to how many digits they agree; nothing stored is replaced.

    Cells of every data set and method are tried in turn, the cheapest first, with the parameters that their search
    chose. What was found is written to verified.json beside the run, and its report shows it. Ends with 1 where a cell
    agrees to fewer digits than its method promises, with 2 where none could be tried.
    """
    from mtlrun.cli.reproduce import ALL, run_folder
    from mtlrun.report.build import build_report, write_texts
    from mtlrun.report.summary import run_folders
    from mtlrun.runs.verify import SAMPLE
    from mtlrun.runs.verify import verify as tried

    if sum((sample is not None, seconds is not None, every)) > 1:
        raise UserError("--sample, --seconds and --all exclude each other", "Give one of them.")
    root = output_dir if target == ALL else Path(target)
    if target == ALL or (root.is_dir() and not (root / "run.json").is_file()):
        folders = run_folders(root)
        if not folders:
            raise UserError(f"{root}: no finished runs below it", "Give an experiment, or the folder of a run.")
    else:
        folders = [run_folder(target, profile, output_dir)]
    number = sample or (None if every or seconds is not None else SAMPLE)
    trials = []
    for trial in tried(folders, sample=number, seconds=seconds, search=search, data_dir=data_dir):
        trials.append(trial)
        if not trial.refused and not (quiet and trial.agrees):
            say(_line(trial))
    for folder in folders:
        if any(folder in trial.names and not trial.refused for trial in trials):
            with writing(folder):
                write_texts(build_report(folder), folder)
        say(_summary(folder, [trial for trial in trials if folder in trial.names]))
    if trials and all(trial.refused for trial in trials):
        raise UserError(
            "no cell could be tried, so nothing was verified",
            "Where data are missing: mtlrun data add ID FILE, mtlrun data fetch ID, or --data-dir DIR.",
        )
    raise typer.Exit(0 if all(trial.agrees for trial in trials if not trial.refused) else 1)


def _line(trial: Trial) -> str:
    """Say of a cell how well it agrees."""
    from mtlrun.runs.verify import ALL_DIGITS

    name = next(iter(trial.names.values()))
    if trial.error:
        return f"{name}: DOES NOT AGREE: {trial.error}"
    worst = min(trial.digits, key=lambda quantity: trial.digits[quantity], default="")
    text = "equal" if trial.least == ALL_DIGITS else f"{trial.least:.1f} digits ({worst})"
    ratio = "" if trial.ratio is None else f", seconds x{trial.ratio:.2f}"
    return f"{name}: {text}{ratio}" + ("" if trial.agrees else f": DOES NOT AGREE, its method promises {trial.asked}")


def _summary(folder: Path, trials: list[Trial]) -> str:
    """Say of a run how many cells were tried and agree, and what could not be tried."""
    from collections import Counter

    tried = [trial for trial in trials if not trial.refused]
    good = sum(trial.agrees for trial in tried)
    text = f"{folder}: {good} of {counted(len(tried), 'cell')} agree" if tried else f"{folder}: no cell tried"
    refused = Counter(trial.refused for trial in trials if trial.refused)
    return "; ".join([text, *(f"{count} not tried: {why}" for why, count in refused.items())])
