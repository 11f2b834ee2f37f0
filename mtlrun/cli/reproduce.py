"""``mtlrun reproduce``: compute what is missing of an experiment, then print and write its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mtlrun.cli import options
from mtlrun.cli.console import output, say
from mtlrun.cli.options import OUTPUT_DEFAULT
from mtlrun.cli.report import ALL, REPORT
from mtlrun.cli.running import NO_ROOM, compute
from mtlrun.errors import UserError, counted
from mtlrun.utils.io import writing

if TYPE_CHECKING:
    from mtlrun.report.build import Report
    from mtlrun.runs.plan import Plan
    from mtlrun.runs.spec import Experiment
    from mtlrun.runs.summary import RunSummary

#: Profile of `mtlrun reproduce all` when none is named.
DEFAULT_PROFILE = "quick"


def reproduce(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Experiment: <paper>/<artefact>, a bare name such as table2, or the path of a YAML file; all: every "
            "artefact of every paper, with a summary.",
        ),
    ],
    profile: options.Profile = None,
    overrides: options.Overrides = None,
    seed: options.Seed = None,
    only: options.Only = None,
    data_dir: options.DataDir = None,
    jobs: options.AnyJobs = None,
    backend: options.Backend = None,
    scheduler: options.Scheduler = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    fail_fast: options.FailFast = False,
    yes: options.Yes = False,
    output_dir: options.Output = OUTPUT_DEFAULT,
    form: options.Format = None,
    check: options.Check = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Reproduce a published table: compute the cells that are missing, then print the table and write the report."""
    if target == ALL:
        from mtlrun.cli.reproduce_all import Options, reproduce_all

        if overrides:
            raise UserError("--set goes with one experiment", "Name it in place of all.")
        # fmt: off
        asked = Options(profile or DEFAULT_PROFILE, seed, only, data_dir, jobs, backend, scheduler, force, fail_fast,
                        yes, output_dir, form, check, quiet)
        # fmt: on
        raise typer.Exit(reproduce_all(asked, dry_run=dry_run))
    from mtlrun.cli.fetching import ensure_data, missing_data
    from mtlrun.runs.load import load_experiment
    from mtlrun.runs.plan import plan

    check_format(form)
    experiment = load_experiment(target, profile=profile, overrides=overrides or (), seed=seed, data_dir=data_dir)
    if not quiet:
        say_experiment(experiment)
    if dry_run and (missing := missing_data(experiment, data_dir)):
        say(f"to download first: {', '.join(card.id for card, *_ in missing)}; all cells would be computed after that")
        return
    ensure_data(experiment, data_dir, yes=yes)
    made = plan(experiment, data_dir=data_dir, only=only, output=output_dir)
    if dry_run:
        say_plan(made, force)
        return
    summary = compute(made, jobs, backend, scheduler, force, fail_fast, quiet)
    raise typer.Exit(conclude(made, summary, form, check))


def check_format(form: str | None) -> None:
    """Refuse an unknown --format before anything is computed."""
    if form is not None:
        from mtlrun.errors import UnknownNameError
        from mtlrun.report.writers import FORMATS

        if form not in FORMATS:
            raise UnknownNameError("format", form, FORMATS)


def say_experiment(experiment: Experiment) -> None:
    """Print what will be run, on stderr: stdout is for results."""
    from mtlrun.runs.plan import settings

    spec = experiment.spec
    trials = sorted({place.trials for place in settings(spec)})
    sizes = {
        "data set": [len(spec.datasets)] if spec.datasets else [],
        "value": [len(spec.sweep.values)] if spec.sweep else [],
        "method": [len(spec.methods)],
        "repeat" if spec.measures else "split": trials,
    }
    told = [f"{'/'.join(map(str, n))} {name}{'s' * (n[-1] > 1)}" for name, n in sizes.items() if n]
    product = " x ".join(told)
    say(f"{experiment.id}: {spec.title}", error=True)
    data = ", ".join(d.name for d in spec.datasets) or "published numbers"
    say(f"profile {experiment.profile}: {product}; data: {data}", error=True)


def say_plan(made: Plan, force: bool) -> None:
    """Print what would be computed and why."""
    from mtlrun.runs.run import todo
    from mtlrun.runs.summary import work_text
    from mtlrun.runs.survey import rerun_reasons, survey

    store = made.store()
    cells, folds = todo(made, store, force=force)
    if not cells:
        say(f"all {counted(len(made.wanted), 'cell')} up to date")
        return
    for line in rerun_reasons(made, survey(made, store)):
        say(line)
    for cell in (*folds, *cells):
        say(f"would compute {made.names[cell.key]}")
    say(f"{work_text(len(cells), len(folds), len(made.wanted))}; nothing was run")


def conclude(plan: Plan, summary: RunSummary, form: str | None, check: bool) -> int:
    """Write and print the report of what is there, and return the exit code.

    Raises
    ------
    UserError
        If the run folder cannot be written.
    """
    from mtlrun.runs.stored import StoredReport

    console, store, folder = output(), plan.store(), plan.folder
    style = f"{console.width} {console.color_system} {console.encoding}"
    plain = form is None and not check
    if plain and summary.unchanged and (folder / REPORT).is_file():
        text = StoredReport(plan, store, style).read()
        if text is not None:
            typer.echo(text, nl=False)
            return 0
    from mtlrun.cli.report import print_report, say_check
    from mtlrun.report.build import build_report
    from mtlrun.report.writers import write_report

    made: Report = build_report(folder)
    with writing(folder, NO_ROOM):
        write_report(made, folder)
        store.pack(row.cell.key for row in plan.rows)
    text = print_report(made, form, folder)
    if plain and not summary.interrupted and summary.n_failed == 0:
        StoredReport(plan, store, style).write(text)
    if summary.interrupted:
        say(f"interrupted; finished cells are kept, {summary.n_left} are left: run the same command again", error=True)
        return 130
    good = say_check(made) if check else True
    return 0 if summary.exit_code == 0 and good else 1
