"""The command ``mtlrun verify``: does the present code still compute stored numbers?"""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import complain, say, writing
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import ALL, run_folder
from mtlrun.errors import UserError, counted
from mtlrun.utils.io import refuse_links

if TYPE_CHECKING:
    from mtlrun.lab.verify import Trial


def verify(
    target: options.Runs,
    profile: options.Profile = None,
    sample: Annotated[
        int | None,
        options.option(
            options.HOW, "N", "Recompute N results of each run. Default: 20.", min=1
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        options.option(
            options.HOW,
            "S",
            "Recompute as many results as possible in S seconds.",
            min=0,
        ),
    ] = None,
    all_cells: Annotated[
        bool,
        options.option(options.HOW, None, "Recompute all finished results.", "--all"),
    ] = False,
    search: Annotated[
        bool,
        options.option(
            options.HOW, None, "Repeat the searches for parameters, too.", "--search"
        ),
    ] = False,
    data_dir: options.DataDir = None,
    output_dir: options.Output = OUTPUT_DEFAULT,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Recompute finished results of a run, and print how well they agree.

    Nothing stored is replaced. The results are taken from each data set and method in
    turn, the cheapest first, with the parameters that their search selected. The result
    is written to verified.json in the folder of the run, also after an interrupt, and
    the report shows it. The exit code is 1 if a result agrees to fewer digits than its
    method promises, and 2 if no result could be tried.
    """
    from mtlrun.engine.stored import VERIFIED
    from mtlrun.lab.report.build import build_report
    from mtlrun.lab.report.formats import write_texts
    from mtlrun.lab.report.summary import run_folders
    from mtlrun.lab.verify import SAMPLE
    from mtlrun.lab.verify import verify as recompute

    if sum((sample is not None, seconds is not None, all_cells)) > 1:
        raise UserError(
            "--sample, --seconds and --all exclude each other", "Give one of them."
        )
    root = output_dir if target == ALL else Path(target)
    is_run = (root / "run.json").is_file()
    if target == ALL or (root.is_dir() and not is_run):
        folders = run_folders(root)
    else:
        root = output_dir
        folders = [run_folder(target, profile, output_dir)]
    if not folders:
        raise UserError(
            f"{root}: no finished runs below it",
            "Give an experiment, or the folder of a run.",
        )
    for folder in folders:
        refuse_links(root, folder)
    if sample is None and seconds is None and not all_cells:
        sample = SAMPLE
    recomputed = recompute(
        folders, sample=sample, seconds=seconds, search=search, data_dir=data_dir
    )
    trials: list[Trial] = []
    try:
        with contextlib.closing(recomputed):
            for trial in recomputed:
                trials.append(trial)
                is_shown = not (quiet and trial.agrees)
                if is_shown and not trial.refused:
                    say(_format_trial(trial))
    except KeyboardInterrupt:
        message = "interrupted"
        n_tried = len(_tried(trials))
        if n_tried:
            message += f"; {counted(n_tried, 'result')} kept in {VERIFIED}"
        complain(message)
        raise typer.Exit(130) from None
    for folder in folders:
        trials_of_folder = [trial for trial in trials if folder in trial.names]
        tried = _tried(trials_of_folder)
        text = f"{folder}: no result tried"
        if tried:
            n_agreeing = sum(trial.agrees for trial in tried)
            text = f"{folder}: {n_agreeing} of {counted(len(tried), 'result')} agree"
            # The report shows the trials, so it is written again.
            with writing(folder):
                write_texts(build_report(folder), folder)
        reasons = Counter(trial.refused for trial in trials_of_folder if trial.refused)
        for reason, count in reasons.items():
            text += f"; {count} not tried: {reason}"
        say(text)
    tried = _tried(trials)
    if trials and not tried:
        raise UserError(
            "no result could be tried, so nothing was verified",
            "Where data are missing: mtlrun data add ID FILE, mtlrun data fetch ID, "
            "or --data-dir DIR.",
        )
    # Without finished results there are no trials, which is not a disagreement.
    all_agree = all(trial.agrees for trial in tried)
    raise typer.Exit(int(not all_agree))


def _tried(trials: list[Trial]) -> list[Trial]:
    """Return the trials that could be made: their data and settings were available."""
    return [trial for trial in trials if not trial.refused]


def _format_trial(trial: Trial) -> str:
    """Return one line that says how well a result agrees."""
    from mtlrun.lab.verify import ALL_DIGITS

    name = next(iter(trial.names.values()))
    if trial.error:
        return f"{name}: DOES NOT AGREE: {trial.error}"
    digits = trial.digits
    worst = min(digits, key=lambda quantity: digits[quantity], default="")
    text = f"{name}: {trial.agreed_digits:.1f} digits ({worst})"
    if trial.agreed_digits == ALL_DIGITS:
        text = f"{name}: equal"
    if trial.ratio is not None:
        text += f", seconds x{trial.ratio:.2f}"
    if not trial.agrees:
        text += f": DOES NOT AGREE, its method promises {trial.promised_digits}"
    return text
