"""Fitted models on disk: a skops archive (no pickle), and the same facts readable without mtlrun.

A model folder holds ``model.skops`` (the fitted estimator and its feature step), ``model.json`` (what it is, on what it
was fitted, how its data must look) and, for linear models, ``coefficients.npz`` with `coef` (n_tasks, n_features),
`intercept` (n_tasks,), `tasks` and `features`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun import __version__
from mtlrun.engine.stored import read_raw
from mtlrun.errors import DataError, UserError, one_line, with_arguments
from mtlrun.estimators.registry import METHODS
from mtlrun.model.checks import check_indices, objects_within
from mtlrun.model.fitted import Model
from mtlrun.problem.memory import free_bytes
from mtlrun.utils.io import file_json, read_file, sealed, unsealed, write_atomic
from mtlrun.utils.outputs import finish
from mtlrun.utils.plugins import import_named
from mtlrun.utils.text import cleaned

SCHEMA = 1
ARCHIVE, FACTS, COEFFICIENTS = "model.skops", "model.json", "coefficients.npz"
#: What lies in the folder of a comparison, and the folder of the model there.
COMPARED, MODEL = "compare.json", "model"
#: Start of the id of a data set that is a table of the user; titles leave it out.
OWN_TABLE = "own-"

#: What to do where there is no model.
NO_MODEL = (
    "Create one with `mtlrun compare TABLE ...` (it is in the folder `model` of the comparison, which is named at the "
    "end) or with `mtlrun train CONFIG`."
)

#: Types of ours that may stand in an archive. Others than these, scikit-learn's and numpy's must be trusted by name.
TRUSTED = frozenset(
    {info.class_path.replace(":", ".") for info in METHODS.values()}
    | {"mtlrun.estimators.baselines.PerTask", "mtlrun.features.dna.WeightedDegree"}
    | {"mtlrun.features.table.TableFeatures", "mtlrun.features.fourier.FourierFeatures"}
    | {
        f"mtlrun.estimators.baselines.{name}"
        for name in ("TaskMean", "LastValue", "TaskFeature", "ScaledTargets")
    }
    | {"mtlrun.estimators.baselines.CalibratedTasks"}
    | {
        f"mtlrun.estimators.tuned.{name}"
        for name in ("TunedRidge", "TunedLogistic", "TunedKernelRidge")
    }
    | {
        f"mtlrun.solvers.hierarchical.compress.{name}"
        for name in ("Block", "Columns", "Compressed")
    }
    | {
        f"mtlrun.solvers.hierarchical.label_posterior.{name}"
        for name in ("LabelPosterior", "TaskRoots")
    }
    | {
        f"mtlrun.solvers.hierarchical.smooth_parts.{name}"
        for name in (
            "AdditivePart",
            "CommonPart",
            "IndicatorFeatures",
            "LevelPart",
            "LinearFeatures",
            "NestedLevelPart",
            "NystroemFeatures",
            "SlopesPart",
            "SmoothDesign",
            "SmoothPart",
            "SmoothRows",
            "Standardizer",
        )
    }
    | {
        "mtlrun.solvers.hierarchical.smooth_blocks.SmoothData",
        "mtlrun.solvers.hierarchical.smooth_posterior.SmoothPosterior",
        "mtlrun.solvers.hierarchical.smooth_posterior.VarianceUncertainty",
        "mtlrun.solvers.hierarchical.smooth_targets.Forests",
        "mtlrun.solvers.hierarchical.smooth_targets.RidgeTargets",
        "mtlrun.solvers.hierarchical.smooth_targets.SmoothTargets",
        "mtlrun.solvers.hierarchical.smooth_targets.TargetData",
        "mtlrun.solvers.hierarchical.smooth_targets.TargetFunctions",
        "mtlrun.solvers.hierarchical.posterior.Posterior",
        "mtlrun.estimators.hierarchical.Estimates",
    }
)

#: Containers of numbers in numpy and scikit-learn that skops does not count among the
#: safe ones. skops leaves out trees because a forged one leads predictions outside of
#: its tables; `check_indices` refuses those.
CONTAINERS = frozenset(
    {
        "numpy.dtype",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
    }
)

#: ``functools.partial`` calls the function that it holds, so it is only loaded around
#: these functions, with keywords from these; `_refuse_partials` sees to it. Boosted
#: trees with categories check their columns by ``partial(check_array, ...)``.
PARTIAL = "functools.partial"
PARTIAL_FUNCTIONS: dict[str, frozenset[str]] = {
    "sklearn.utils.validation.check_array": frozenset({"dtype", "ensure_all_finite"})
}
LOADABLE = TRUSTED | CONTAINERS | PARTIAL_FUNCTIONS.keys() | {PARTIAL}

#: The description of an archive by skops. An archive may expand to so many bytes, or so many times its own size,
#: whichever is more.
ARCHIVE_SCHEMA = "schema.json"
MOST_BYTES, MOST_TIMES = 256 << 20, 20
UNTRUSTED_REMEDY = "Train the model again, or get it from somebody you trust."

#: Modules of scikit-learn that adapt other packages, and import them: none of them has an estimator.
_ADAPTERS = tuple(
    f"sklearn.externals.array_api_compat.{name}" for name in ("torch", "cupy", "dask")
)


def import_skops() -> Any:
    """Return the package skops, with `skops.io` imported.

    That asks scikit-learn for its estimators, which imports all packages inside it, and with the adapters all of torch:
    they are kept out meanwhile, as if what they adapt were not installed.
    """
    kept_out = [name for name in _ADAPTERS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept_out))  # type: ignore[arg-type]
    try:
        import skops.io
    finally:
        for name in kept_out:
            sys.modules.pop(name, None)
    return skops


def save_model(folder: Path, model: Model) -> dict[str, Any]:
    """Write a model into a folder, every file whole or not at all; returns the facts as written.

    Raises
    ------
    UserError
        If a part of the model cannot be stored without pickle.
    """
    skops = import_skops()
    try:
        archive = skops.io.dumps({"estimator": model.estimator, "step": model.step})
        # Some objects are written and cannot be read again: find out while the model is still there.
        skops.io.loads(archive, trusted=skops.io.get_untrusted_types(data=archive))
    except Exception as error:  # skops raises what the object's own state raises
        name = type(model.estimator).__name__
        raise UserError(
            f"the fitted {name} cannot be saved without pickle: {error}"
        ) from error
    content = {ARCHIVE: archive}
    table = _coefficients(model)
    if table is not None:
        content[COEFFICIENTS] = table
    packages = ("numpy", "scipy", "scikit-learn", "skops")
    facts = {
        "schema": SCHEMA,
        "mtlrun": __version__,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        **model.about,
        "files": {
            name: hashlib.sha256(data).hexdigest() for name, data in content.items()
        },
    }
    for name, data in content.items():
        write_atomic(folder / name, data)
    if table is None:
        (folder / COEFFICIENTS).unlink(
            missing_ok=True
        )  # of an earlier model in this folder
    write_atomic(folder / FACTS, file_json(sealed(facts)))
    return facts


@with_arguments
def load_model(path: str | Path, trust: Iterable[str] = ()) -> Model:
    """Read a model folder, the ``model.skops`` or ``model.json`` in it, or the folder of a comparison.

    Parameters
    ----------
    path : str or Path
    trust : iterable of str
        Types, ``package.module.Class`` or ``package.module:Class``, that the archive may hold beside those of mtlrun,
        scikit-learn, numpy and scipy. Loading a type imports its module.

    Raises
    ------
    DataError
        If there is no model, a file is damaged, or does not belong to the others.
    UserError
        If the archive holds a type that is not trusted.
    """
    skops = import_skops()
    from skops.io.exceptions import UntrustedTypesFoundException

    path = Path(path)
    folder = finished(model_folder(path))
    facts = _read_facts(folder)
    file = folder / ARCHIVE
    try:
        archive = _read_checked(file)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}", "Train the model again.") from None
    _check_files(folder, facts["files"])
    known = {name.replace(":", ".") for name in trust}
    try:
        _refuse_large(archive, str(file))
        for type_name in known.intersection(
            _unknown_types(archive)
        ):  # it may be of a module in the current folder
            with contextlib.suppress(ImportError):  # told below
                import_named(type_name.rpartition(".")[0])
        content = skops.io.loads(archive, trusted=sorted(LOADABLE | known))
        if not isinstance(content, dict) or not {"estimator", "step"} <= content.keys():
            raise DataError(f"{file}: holds no estimator", UNTRUSTED_REMEDY)
        if PARTIAL not in known:
            _refuse_partials(content, known, str(file))
        check_indices(content, str(file), UNTRUSTED_REMEDY)
    except UserError:  # a DataError, too
        raise
    except UntrustedTypesFoundException:
        unknown = _unknown_types(archive, known)
        raise UserError(
            f"{file}: contains types that mtlrun does not know: {', '.join(unknown)}",
            f"Loading them runs their code. If you trust the source of the file, add: {_options(unknown)}",
        ) from None
    except (ImportError, AttributeError) as error:
        raise DataError(
            f"{file}: {error}",
            f"Install the package of this estimator, in the version given in {FACTS}.",
        ) from None
    except (
        Exception
    ) as error:  # an archive of other hands: skops raises whatever its content leads to
        raise DataError(
            f"{file}: cannot be read ({str(error).strip() or type(error).__name__})",
            f"Train the model again, or install the package versions given in {FACTS}.",
        ) from error
    return Model(content["estimator"], content["step"], facts)


@contextlib.contextmanager
def used(path: Path) -> Iterator[None]:
    """Turn what a loaded model raises while it is used into an error that names it.

    A model file may have been changed so that it can still be read. `load_model` checks
    what could crash the process; everything else shows when the model predicts.

    Parameters
    ----------
    path : Path
        Where the model was loaded from.

    Raises
    ------
    DataError
        In place of any exception but a `UserError` and an OSError, which say themselves
        what they are about.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        raise DataError(
            f"{path}: this model cannot be used ({one_line(error)})",
            "Its files may be damaged: train the model again. --debug shows where it failed.",
        ) from error


def _read_checked(file: Path) -> bytes:
    """Return the content of a file of a model that fits into the free memory.

    Raises
    ------
    DataError
        If it is larger. A sparse file may claim terabytes without taking up any space.
    OSError
        If it cannot be read.
    """
    size = os.stat(file).st_size
    if size > free_bytes():
        raise DataError(
            f"{file}: {size:,} bytes are more than the free memory", UNTRUSTED_REMEDY
        )
    return read_file(file)


def trust_options(folder: Path) -> str:
    """Return the options, ``--trust TYPE``, that `mtlrun predict` needs for a model that was just saved."""
    return _options(_unknown_types(read_file(folder / ARCHIVE)))


def _options(types: Iterable[str]) -> str:
    return " ".join(f"--trust {name}" for name in types)


def _unknown_types(archive: bytes, known: Set[str] = frozenset()) -> list[str]:
    """Return the types in an archive that are only loaded when they are trusted by name."""
    skops = import_skops()
    return sorted(set(skops.io.get_untrusted_types(data=archive)) - LOADABLE - known)


def finished(folder: Path) -> Path:
    """Return the folder of a model, after what was decided to be written there or into the comparison around it.

    Raises
    ------
    DataError
        If that is not complete and cannot be completed.
    """
    for place in (Path(os.path.abspath(folder)).parent, folder):
        try:
            finish(place)
        except OSError as error:
            text = f"{place}: the last results here are incomplete, because a process was killed ({error.strerror})"
            raise DataError(
                text, "Make the folder writable; the next command then completes them."
            ) from None
    return folder


def _check_files(folder: Path, hashes: Mapping[str, str]) -> None:
    """Refuse a folder in which a file is not the one that ``model.json`` describes; coefficients may be taken away."""
    for name in (ARCHIVE, COEFFICIENTS):
        file = folder / name
        found = None
        if file.is_file():
            found = hashlib.sha256(_read_checked(file)).hexdigest()
        if found not in (None, hashes.get(name)):
            text = f"{file}: not the file that {FACTS} describes"
            hashes_of = f"expected sha256 {hashes.get(name)}\n  found    sha256 {found}"
            raise DataError(f"{text}\n  {hashes_of}", "Train the model again.")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return ``model.json`` of a model folder, its texts made safe to display.

    Raises
    ------
    DataError
        If it is absent, no description of a model, or not what was written.
    """
    return dict(cleaned(_read_facts(folder)))


def model_folder(path: Path) -> Path:
    """Return the folder of a model: the one that is given, that of a file in it, or the one in that of a comparison."""
    if path.name in (ARCHIVE, FACTS) and not path.is_dir():
        return path.parent
    return (
        path / MODEL
        if (path / COMPARED).is_file() and not (path / FACTS).exists()
        else path
    )


def files_of(path: Path) -> list[Path]:
    """Return what lies in the folder of a model, and in that of its comparison: no place for other files."""
    folder = model_folder(path)
    compared = [folder.parent] if (folder.parent / COMPARED).is_file() else []
    return [
        file
        for place in (folder, *compared)
        if place.is_dir()
        for file in place.iterdir()
    ]


def _read_facts(folder: Path) -> dict[str, Any]:
    file = folder / FACTS
    if folder.is_file():
        raise DataError(
            f"{folder} is not the folder of a model",
            "`mtlrun train` writes models as folders. Pickle and joblib files can run any code and are never loaded.",
        )
    facts = read_raw(file)
    if facts is None:
        raise DataError(f"{folder}: no model here (no {FACTS})", NO_MODEL)
    if facts.get("schema") != SCHEMA:
        raise DataError(
            f"{file}: not a model description of schema {SCHEMA}",
            "Train the model again.",
        )
    try:
        return unsealed(dict(facts))
    except ValueError as error:
        raise DataError(
            f"{file}: {error}; it was changed after it was written",
            "Train the model again.",
        ) from None


def _coefficients(model: Model) -> bytes | None:
    """Return coefficients.npz, None for a model that is not linear."""
    coef = getattr(model.estimator, "coef_", None)
    if coef is None:
        return None
    names = transformed_names(model)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        coef=coef,
        intercept=getattr(model.estimator, "intercept_", np.zeros(len(coef))),
        tasks=np.asarray(model.about["tasks"], dtype=str),
        features=np.asarray(names, dtype=str),
    )
    return buffer.getvalue()


def transformed_names(model: Model) -> Sequence[str]:
    """Return the names of the features as the estimator gets them; none where they have no names."""
    names: Sequence[str] = model.about["input"]["names"]
    if hasattr(model.step, "get_feature_names_out"):
        return list(
            model.step.get_feature_names_out(
                np.asarray(names, dtype=object) if names else None
            )
        )
    return names or ()


def _refuse_large(archive: bytes, name: str) -> None:
    """Refuse a model that would take far more memory than its archive.

    `save_model` stores members as they are. Only sparse matrices are compressed, as npz files of scipy; and an array
    that several objects name is read for each of them.

    Parameters
    ----------
    archive : bytes
        What skops wrote.
    name : str
        The file, for messages.

    Raises
    ------
    DataError
        If a member is compressed, or what would be read is too large.
    zipfile.BadZipFile, KeyError, ValueError, RecursionError
        If it is no such archive.
    """
    limit = max(MOST_BYTES, MOST_TIMES * len(archive))
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        infos = members.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise DataError(
                f"{name}: its members are compressed; mtlrun writes them uncompressed",
                UNTRUSTED_REMEDY,
            )
        _check_size(sum(info.file_size for info in infos), limit, name)
        total, sizes = 0, {info.filename: info.file_size for info in infos}
        for file in _members(json.loads(members.read(ARCHIVE_SCHEMA))):
            if file.endswith(".npz") and file in sizes:
                sizes[f"{file}/"] = sizes.get(f"{file}/") or _expanded(
                    members.read(file)
                )
            total += sizes.get(f"{file}/", sizes.get(file, 0))
            _check_size(total, limit, name)


def _check_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise DataError(f"{name}: expands to more than {limit} bytes", UNTRUSTED_REMEDY)


def _expanded(content: bytes) -> int:
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        return sum(info.file_size for info in members.infolist())


def _members(schema: Any) -> Iterator[str]:
    """Yield the member that every object of a schema is read from."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(file := value.get("file"), str):
                yield file
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


# ---------------------------------------------------------------------- arrays that compiled code uses as indices
# They are checked before anything predicts with them: the code of scikit-learn and scipy trusts them. A child behind
# the end of a tree's table reads memory that is not the model's, and a child that is an ancestor never ends.


def _refuse_partials(content: Any, known: Set[str], name: str) -> None:
    """Refuse a ``functools.partial`` of a function that nobody has allowed.

    A function of `known` was trusted by name. The functions of `PARTIAL_FUNCTIONS` take
    plain values for some of their keywords, and nothing else.

    Raises
    ------
    UserError
    """
    for value in objects_within(content):
        if not isinstance(value, partial):
            continue
        function = getattr(value.func, "__qualname__", type(value.func).__name__)
        function = f"{getattr(value.func, '__module__', '')}.{function}"
        keywords = PARTIAL_FUNCTIONS.get(function, frozenset())
        is_plain = (
            not value.args
            and value.keywords.keys() <= keywords
            and all(map(_is_plain, value.keywords.values()))
        )
        if function not in known and not (keywords and is_plain):
            raise UserError(
                f"{name}: contains a {PARTIAL} of {function}, which mtlrun cannot check",
                "Predicting calls that function. If you trust the source of the file, "
                f"add: {_options([PARTIAL])}",
            )


def _is_plain(value: Any) -> bool:
    """Whether a value is a bool, None, a number type of numpy, or a list of these."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    is_number_type = isinstance(value, type) and issubclass(value, np.number)
    return value is None or isinstance(value, bool) or is_number_type
