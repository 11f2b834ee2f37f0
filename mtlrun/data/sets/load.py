"""Data sets by name: loading, fingerprints and checks of statistics."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtlrun.data.reading.files import DataFile
from mtlrun.data.sets.files import data_directory, missing_files, verify_files
from mtlrun.errors import DataError, UnknownNameError, with_arguments
from mtlrun.utils.io import sha256_json

if TYPE_CHECKING:
    from mtlrun.data.dataset import Dataset
    from mtlrun.data.roles.check import TableFinding
    from mtlrun.data.sets.cards import Card, Variant


#: Readers of cards: the module in mtlrun.data.sets, and its function.
READERS = {
    "csv": "labelled:read_csv",
    "digits": "images:read_digits",
    "fasta": "splice:read",
    "idx": "images:read",
    "letter": "images:read_letter",
    "mat": "labelled:read_cells",
    "mulan": "mulan:read",
    "sarcos": "labelled:read_sarcos",
    "school": "labelled:read_school",
    "table": "labelled:read",
    "uci": "labelled:read_uci",
    "uci:splice": "splice:read_splice",
}

#: Why what a reader or a generator returns changed, a line for each time:
#: ``reader:mulan`` or ``generator:rmtl`` -> its version is one more than their number.
#: Stored results of earlier versions are out of date.
SOURCE_CHANGES: dict[str, tuple[str, ...]] = {
    "reader:table": (
        "tasks are sorted, and names are text as written",
        "columns with another whole number in every row are identifiers",
    ),
    # Tables with these roles have changes of their own, in addition to the changes of
    # all tables.
    "reader:table+group": ("the groups of every task are dealt over all folds",),
    "reader:table+since_first": (
        "dates are no categories, and times are read as the training rows write them",
    ),
    "reader:table+time": (
        "the last rows of each task are tested",
        "times are read as the training rows write them",
    ),
    "reader:table+weight": ("weights have mean 1, and rows of weight 0 are left out",),
}
#: Roles of columns that stand in the name of the reader.
_VERSIONED_ROLES = ("group", "since_first", "time", "weight")

#: The least value of options that several data sets have, and what lies above the
#: largest.
_LEAST = {"seed": 0, "sample_seed": 0, "sample": 1}
_MOST = 10**18

#: How binary labels may be coded; the first is the default.
CODINGS = ("-1/+1", "0/1")


@with_arguments
def load_dataset(
    id: str,
    *,
    data_dir: str | Path | None = None,
    variant: str | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    coding: str = CODINGS[0],
    **options: Any,
) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    id : str
        Name of a card (`mtlrun data list`).
    data_dir : path, optional
        Data directory; default ``$MTLRUN_DATA``, else the platform's cache.
    variant : str, optional
        A variant that the card offers.
    sample : int, optional
        Keep this many rows, drawn without replacement, in their old order.
    sample_seed : int, default=0
        Seed of that draw.
    coding : {"-1/+1", "0/1"}, default="-1/+1"
        Numbers that stand for the two labels of binary tasks. It matters to least
        squares without an intercept; classifiers fit -1/+1 in any case.
    **options
        Options of the card's reader or generator; they override the options of the
        variant and the card.

    Returns
    -------
    Dataset

    Raises
    ------
    UnknownNameError
        If there is no such data set, variant or option; near names are suggested.
    DataError
        If a file is missing, damaged, or not what the card says, `sample` exceeds the
        rows, `coding` is unknown or not for these targets, or numbers are too large or
        too small to be squared.

    Examples
    --------
    >>> from mtlrun.data import load_dataset
    >>> data = load_dataset("simulated-rmtl", n=100, d=20, m=8)
    >>> data.X.shape, data.y.shape, data.simulated
    ((100, 20), (100, 8), True)
    >>> data.n_tasks, data.tasks[:2]
    (8, ['task 0', 'task 1'])
    >>> load_dataset("digits").tasks[:3]
    ['0', '1', '2']
    """
    import numpy as np

    from mtlrun.data.dataset import check_read
    from mtlrun.utils.processes import limited_threads

    card, chosen, files, fingerprint = _prepare(
        id,
        data_dir,
        variant=variant,
        sample=sample,
        sample_seed=sample_seed,
        coding=coding,
        **options,
    )
    function = source_function(card)
    check_options(f"data set {id}", {"sample": sample, "sample_seed": sample_seed}, ())
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    own_options = card.variant(variant).options
    check_options(f"{card.path}: {card.source.name}", own_options, defaults)
    check_options(f"data set {id}", options, defaults)
    options = {**defaults, **chosen.options}
    for name, value in options.items():
        if value is inspect.Parameter.empty:
            raise DataError(
                f"{card.path}: the reader {card.source.name} needs the option {name!r}"
            )
    # One thread: how matrix products round, and with it simulated targets, depends on
    # how many there are.
    with limited_threads(1):
        arguments = () if card.simulated else (files, card)
        dataset = function(*arguments, **options)
    dataset = replace(
        dataset,
        id=card.id,
        title=card.title,
        simulated=card.simulated,
        fingerprint=fingerprint,
        options=options,
        notes="\n".join(text for text in (chosen.notes, dataset.notes) if text),
    )
    if sample is not None:
        if sample > dataset.n_samples:
            raise DataError(
                f"data set {id}: cannot take a sample of {sample} from "
                f"{dataset.n_samples} rows"
            )
        dataset = dataset.subset(
            np.sort(
                np.random.default_rng(sample_seed).permutation(dataset.n_samples)[
                    :sample
                ]
            )
        )
    if coding != CODINGS[0]:
        if dataset.task_type != "binary":
            raise DataError(
                f"data set {card.id}: coding={coding!r} is for binary labels, not for "
                f"{dataset.task_type}"
            )
        dataset = replace(dataset, y=(dataset.y + 1.0) / 2.0)
    check_read(dataset, f"data set {card.id}")
    return dataset


def loaded_findings(
    dataset: Dataset, *, data_dir: str | Path | None = None, **options: Any
) -> list[TableFinding]:
    """Return what may be wrong in a data set, see `mtlrun.data.roles.check.findings`.

    Parameters
    ----------
    dataset : Dataset
        What `load_dataset` returned. Its rows are counted, unless it is a table of a
        user, whose lines are named.
    data_dir, **options
        Of `load_dataset`.
    """
    from mtlrun.data.roles.check import dataset_findings, findings
    from mtlrun.data.sets.labelled import read_with_roles

    card, chosen, files, _ = _prepare(dataset.id, data_dir, **options)
    if card.source.name != "table" or "sample" in options:
        return dataset_findings(dataset)
    roles = {**chosen.options}
    roles.pop("test", None)
    return findings(*read_with_roles(files, card, **roles))


def dataset_fingerprint(
    id: str,
    *,
    data_dir: str | Path | None = None,
    needs_files: bool = True,
    **options: Any,
) -> str:
    """Return the sha256 of everything that decides the loaded data; parses nothing.

    It covers the contents of the files (which are verified), the name of the reader or
    generator, the options that are given and the sampling; not the version of the
    reader, which is part of the key of a cell, and no defaults: nothing is imported.
    Parameters and errors are as in `load_dataset`, but names of options are not
    checked. With ``needs_files=False``, files may be missing whose digests are in the
    card.
    """
    return _prepare(id, data_dir, needs_files=needs_files, **options)[-1]


def source_path(card: Card) -> str:
    """Return ``module:function`` of the reader or generator that a card names.

    Nothing is imported.

    Raises
    ------
    UnknownNameError
        If there is no such reader.
    """
    name = card.source.name
    if card.simulated:
        return f"mtlrun.data.sets.simulate:simulate_{name.rpartition(':')[2]}"
    if name not in READERS:
        raise UnknownNameError(f"reader of {card.path}", name, READERS)
    return f"mtlrun.data.sets.{READERS[name]}"


def source_name(card: Card) -> str:
    """Return what the version of a reader or generator stands under.

    ``reader:mulan``, ``generator:rmtl``, and ``reader:table+weight`` for a table of a
    user with a column of weights.
    """
    name = card.source.name
    if card.simulated:
        return f"generator:{name.rpartition(':')[2]}"
    if name == "table":
        return table_source_name(card.source.options)
    return f"reader:{name}"


def table_source_name(options: Mapping[str, Any]) -> str:
    """Return `source_name` of a table of a user, from the options of its reader."""
    roles = [role for role in _VERSIONED_ROLES if options.get(role)]
    return "+".join(["reader:table", *roles])


def source_function(card: Card) -> Callable[..., Dataset]:
    """Return the reader or generator that a card names.

    Raises
    ------
    DataError
        If there is no such reader or generator.
    """
    module, _, name = source_path(card).partition(":")
    function: Callable[..., Dataset] | None = getattr(
        importlib.import_module(module), name, None
    )
    if function is None:
        raise DataError(
            f"{card.path}: there is no generator {card.source.name!r}",
            "See `mtlrun data list`.",
        )
    return function


def _prepare(
    id: str,
    data_dir: str | Path | None,
    *,
    needs_files: bool = True,
    variant: str | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    coding: str = CODINGS[0],
    **options: Any,
) -> tuple[Card, Variant, dict[str, DataFile], str]:
    """Return the card, the variant, its verified files, and the fingerprint.

    The variant has all options. Without `needs_files` there may be no files.
    """
    if coding not in CODINGS:
        raise DataError(
            f"data set {id}: coding must be one of {', '.join(CODINGS)}, not {coding!r}"
        )
    folder = data_directory(data_dir)
    from mtlrun.data.sets.cards import check_id, load_card  # loads pydantic

    card = load_card(check_id(id), folder)
    chosen = card.variant(variant)
    chosen = chosen.model_copy(update={"options": {**chosen.options, **options}})
    files: dict[str, DataFile] = {}
    digests = {spec.name: spec.sha256 for spec in card.needed(variant)}
    is_declared = all(digests.values())
    if needs_files or not is_declared or not missing_files(card, variant, folder):
        files = verify_files(card, variant, folder)
        digests = {name: file.sha256 for name, file in files.items()}
    changes: dict[str, Any] = {}
    if sample is not None:
        changes["sample"] = [sample, sample_seed]
    if coding != CODINGS[0]:
        changes["coding"] = coding
    fingerprint = fingerprint_of(card.source.name, chosen.options, digests, changes)
    return card, chosen, files, fingerprint


def fingerprint_of(
    source: str,
    options: Mapping[str, Any],
    digests: Mapping[str, str | None],
    changes: Mapping[str, Any] | None = None,
) -> str:
    """Return the sha256 of what decides a data set; see `dataset_fingerprint`.

    Parameters
    ----------
    source : str
        Name of the reader or generator.
    options : mapping
        Its options.
    digests : mapping of str to str
        Names of the files and the sha256 of their contents.
    changes : mapping, optional
        Sampling and coding, unless they are the default.
    """
    identity = {"source": source, "options": options, "files": digests}
    return sha256_json(identity | dict(changes or {}))


def check_options(
    subject: str, options: Mapping[str, Any], available: Iterable[str]
) -> None:
    """Raise an error for unknown options, and for invalid seeds and samples.

    The reader or generator of a data set knows its options. Messages begin with
    `subject`: the data set, or its card and reader.

    Raises
    ------
    UnknownNameError
        With the nearest names.
    DataError
        For a seed that is not a whole number of at least 0, and a sample that is not a
        whole number of rows.
    """
    names = [*available, "variant", "sample", "sample_seed", "coding"]
    for name, value in options.items():
        if name not in names:
            raise UnknownNameError(
                "option", name, names, f"{subject} has no option {name!r}"
            )
        least = _LEAST.get(name)
        if least is None or (name == "sample" and value is None):
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, Integral)
            or not least <= int(value) < _MOST
        ):
            text = (
                f"{subject}: {name} must be a whole number of at least {least}, "
                f"not {value!r}"
            )
            raise DataError(text, "Give one of at most 18 digits.")


@dataclass(frozen=True)
class Fact:
    """One statistic: the computed value, the card's value, and whether they agree.

    The card's value is None if it states none.
    """

    name: str
    found: int | float | None
    expected: int | float | None
    agrees: bool


def compare_statistics(
    statistics: Mapping[str, int | float], expected: Mapping[str, int | float]
) -> list[Fact]:
    """Compare the statistics of a data set with those on its card.

    Whole numbers must be equal; other numbers must agree in the decimals that the card
    gives. A statistic that the card names but the data set lacks disagrees.
    """
    comparisons = []
    for name in dict.fromkeys([*statistics, *expected]):
        ours = statistics.get(name)
        wanted = expected.get(name)
        agrees = wanted is None or ours == wanted
        if isinstance(wanted, float) and ours is not None:
            # A hair more than half a unit, for binary fractions and for tables that cut
            # instead of rounding the last 5.
            agrees = abs(ours - wanted) <= 0.5001 * 10.0 ** int(
                Decimal(repr(wanted)).as_tuple().exponent
            )
        comparisons.append(Fact(name, ours, wanted, agrees))
    return comparisons
