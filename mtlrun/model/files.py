"""Save and load fitted models, without pickle.

A model folder contains

- ``model.skops``: the fitted estimator and its feature step, as an archive of skops,
- ``model.json``: the description of the model, of the data that it was fitted on, and
  of the data that it can read,
- ``coefficients.npz``, for linear models: `coef` of shape (n_tasks, n_features),
  `intercept` of shape (n_tasks,), `tasks` and `features`.

The last two can be read without mtlrun. The archive may come from anyone, so it is
checked before it is loaded: types that are not trusted, sizes, and tables of indices
(`mtlrun.model.checks`).
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
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mtlrun import __version__
from mtlrun.catalog.registry import BASELINES, METHODS
from mtlrun.engine.environment import installed_version
from mtlrun.engine.stored import fields_of_file, not_a_result, read_raw
from mtlrun.errors import DataError, UserError, one_line, with_arguments
from mtlrun.model.checks import check_indices, objects_within
from mtlrun.model.fitted import Model, ModelDescription
from mtlrun.problem.memory import free_bytes
from mtlrun.utils.io import (
    file_json,
    jsonable,
    read_fields,
    read_file,
    sealed,
    unsealed,
    write_atomic,
)
from mtlrun.utils.outputs import is_incomplete
from mtlrun.utils.plugins import import_named
from mtlrun.utils.text import cleaned

#: Version of the content of ``model.json``.
SCHEMA = 1
#: Names of the files of a model.
ARCHIVE = "model.skops"
FACTS = "model.json"
COEFFICIENTS = "coefficients.npz"
#: Fields that each description has.
REQUIRED_FACTS = (
    "files",
    "tasks",
    "input",
    "design",
    "task_type",
    "estimator",
    "dataset",
)
#: File that each folder of a comparison contains, and the folder of its model.
COMPARED = "compare.json"
MODEL = "model"

#: Remedy if there is no model.
NO_MODEL = (
    "Create one with `mtlrun compare TABLE ...` (it is in the folder `model` of the "
    "comparison, which is named at the end) or with `mtlrun train CONFIG`."
)

#: Classes of mtlrun that are not methods but may be part of a fitted model, by module.
_PARTS_OF_MODELS = {
    "mtlrun.estimators.baselines": (
        "CalibratedTasks",
        "LastValue",
        "PerTask",
        "ScaledTargets",
        "TaskFeature",
        "TaskMean",
    ),
    "mtlrun.estimators.hierarchical": ("Estimates",),
    "mtlrun.estimators.tuned": ("TunedKernelRidge", "TunedLogistic", "TunedRidge"),
    "mtlrun.features.dna": ("WeightedDegree",),
    "mtlrun.features.fourier": ("FourierFeatures",),
    "mtlrun.features.table": ("TableFeatures",),
    "mtlrun.solvers.hierarchical.compress": ("Block", "Columns", "Compressed"),
    "mtlrun.solvers.hierarchical.label_posterior": (
        "LabelPosterior",
        "NodePosterior",
        "TaskNodes",
        "TaskRoots",
    ),
    "mtlrun.solvers.hierarchical.posterior": ("Posterior",),
    "mtlrun.solvers.hierarchical.smooth_blocks": ("SmoothData",),
    "mtlrun.solvers.hierarchical.smooth_parts": (
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
    ),
    "mtlrun.solvers.hierarchical.smooth_posterior": (
        "SmoothPosterior",
        "VarianceUncertainty",
    ),
    "mtlrun.solvers.hierarchical.smooth_targets": (
        "Forests",
        "RidgeTargets",
        "SmoothTargets",
        "TargetData",
        "TargetFunctions",
    ),
}


#: Types of mtlrun that an archive may contain. Types that belong neither to mtlrun nor
#: to scikit-learn, numpy or scipy are loaded only if the user trusts them by name.
TRUSTED = frozenset(
    [
        *(info.class_path.replace(":", ".") for info in METHODS.values()),
        *(info.class_path.replace(":", ".") for info in BASELINES.values()),
        *(
            f"{module}.{name}"
            for module, names in _PARTS_OF_MODELS.items()
            for name in names
        ),
    ]
)

#: Containers of numbers in numpy and scikit-learn that skops does not consider safe.
#: The predictions of a forged tree would read memory outside its tables, which
#: `check_indices` prevents.
CONTAINERS = frozenset(
    {
        "numpy.dtype",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
    }
)

#: A ``functools.partial`` calls a function of the archive. Only these functions, with
#: these keywords, are allowed (`_refuse_partials`). Boosted trees with categories check
#: their columns by ``partial(check_array, ...)``.
PARTIAL = "functools.partial"
PARTIAL_FUNCTIONS: dict[str, frozenset[str]] = {
    "sklearn.utils.validation.check_array": frozenset({"dtype", "ensure_all_finite"})
}
LOADABLE = TRUSTED | CONTAINERS | PARTIAL_FUNCTIONS.keys() | {PARTIAL}

#: Member of an archive in which skops describes the objects.
ARCHIVE_SCHEMA = "schema.json"
#: An archive may expand to this number of bytes, or to this multiple of its size,
#: whichever is larger.
MAX_EXPANDED_BYTES = 256 << 20
MAX_EXPANSION_FACTOR = 20
UNTRUSTED_REMEDY = "Train the model again, or get it from somebody you trust."

#: Modules of scikit-learn that import other packages to adapt them. They contain no
#: estimators.
_ADAPTERS = tuple(
    f"sklearn.externals.array_api_compat.{name}" for name in ("torch", "cupy", "dask")
)


def import_skops() -> Any:
    """Return the package skops, with `skops.io` imported.

    The import lists the estimators of scikit-learn, which imports all of its modules,
    including adapters that import torch. The adapters are blocked meanwhile, as if the
    packages were not installed, because importing torch takes seconds.
    """
    blocked = [name for name in _ADAPTERS if name not in sys.modules]
    # Python raises ImportError for a module that is None here.
    sys.modules.update(dict.fromkeys(blocked))  # type: ignore[arg-type]
    try:
        import skops.io
    finally:
        for name in blocked:
            sys.modules.pop(name, None)
    return skops


def save_model(folder: Path, model: Model) -> dict[str, Any]:
    """Write a model into a folder; each file is written completely or not at all.

    Returns
    -------
    dict
        Content of ``model.json`` without its digest.

    Raises
    ------
    UserError
        If a part of the model cannot be stored without pickle.
    """
    skops = import_skops()
    try:
        archive = skops.io.dumps({"estimator": model.estimator, "step": model.step})
        # skops can write some objects that it cannot read. The test comes now, while
        # the model still exists.
        skops.io.loads(archive, trusted=skops.io.get_untrusted_types(data=archive))
    except Exception as error:
        # The state of an object may raise anything.
        name = type(model.estimator).__name__
        raise UserError(
            f"the fitted {name} cannot be saved without pickle: {error}"
        ) from error
    files = {ARCHIVE: archive}
    coefficients = _coefficients(model)
    if coefficients is not None:
        files[COEFFICIENTS] = coefficients
    packages = ("numpy", "scipy", "scikit-learn", "skops")
    hashes = {}
    for name, content in files.items():
        hashes[name] = hashlib.sha256(content).hexdigest()
    description = {
        "schema": SCHEMA,
        "mtlrun": __version__,
        "python": platform.python_version(),
        "packages": {name: installed_version(name) for name in packages},
        **model.about,
        "files": hashes,
    }
    for name, content in files.items():
        write_atomic(folder / name, content)
    if coefficients is None:
        # An earlier model in this folder may have had coefficients.
        (folder / COEFFICIENTS).unlink(missing_ok=True)
    write_atomic(folder / FACTS, file_json(sealed(jsonable(description))))
    return description


@with_arguments
def load_model(path: str | Path, trust: Iterable[str] = ()) -> Model:
    """Load a model.

    Parameters
    ----------
    path : str or Path
        Folder of a model, ``model.skops`` or ``model.json`` in it, or the folder of a
        comparison.
    trust : iterable of str
        Additional types that the archive may contain, as ``package.module.Class`` or
        ``package.module:Class``. Types of mtlrun, scikit-learn, numpy and scipy are
        always allowed. Loading a type imports its module.

    Raises
    ------
    DataError
        If there is no model, or a file is damaged or belongs to another model.
    UserError
        If the archive contains a type that is not trusted.
    """
    skops = import_skops()
    from skops.io.exceptions import UntrustedTypesFoundException

    path = Path(path)
    folder = model_folder(path)
    refuse_incomplete(folder)
    description = _read_description(folder)
    file = folder / ARCHIVE
    try:
        archive = read_if_it_fits(file)
    except OSError as error:
        raise DataError(f"{file}: {error.strerror}", "Train the model again.") from None
    # Files may be missing: coefficients are optional, and a missing archive has been
    # reported.
    hashes = description["files"]
    for name in (ARCHIVE, COEFFICIENTS):
        path = folder / name
        if not path.is_file():
            continue
        expected_hash = hashes.get(name)
        file_hash = hashlib.sha256(read_if_it_fits(path)).hexdigest()
        if file_hash != expected_hash:
            raise DataError(
                f"{path}: not the file that {FACTS} describes\n"
                f"  expected sha256 {expected_hash}\n"
                f"  found    sha256 {file_hash}",
                "Train the model again.",
            )
    trusted = {name.replace(":", ".") for name in trust}
    try:
        _refuse_large(archive, str(file))
        # Without trusted names the archive is not read once more for its types.
        named_types = trusted.intersection(_unknown_types(archive)) if trusted else ()
        for type_name in named_types:
            # The module may be in the current folder, where skops does not look. If it
            # cannot be imported, loading the archive raises the error.
            with contextlib.suppress(ImportError):
                import_named(type_name.rpartition(".")[0])
        content = skops.io.loads(archive, trusted=sorted(LOADABLE | trusted))
        if not isinstance(content, dict) or not {"estimator", "step"} <= content.keys():
            raise DataError(f"{file}: contains no estimator", UNTRUSTED_REMEDY)
        if PARTIAL not in trusted:
            _refuse_partials(content, trusted, str(file))
        check_indices(content, str(file), UNTRUSTED_REMEDY)
    except (UserError, MemoryError):
        # UserError includes DataError.
        raise
    except UntrustedTypesFoundException:
        unknown = _unknown_types(archive, trusted)
        raise UserError(
            f"{file}: contains types that mtlrun does not know: {', '.join(unknown)}",
            "Loading them runs their code. If you trust the source of the file, add: "
            f"{_trust_options(unknown)}",
        ) from None
    except (ImportError, AttributeError) as error:
        raise DataError(
            f"{file}: {error}",
            f"Install the package of this estimator, in the version given in {FACTS}.",
        ) from None
    except Exception as error:
        # skops raises whatever the content of a damaged archive leads to.
        cause = str(error).strip() or type(error).__name__
        raise DataError(
            f"{file}: cannot be read ({cause})",
            f"Train the model again, or install the package versions given in {FACTS}.",
        ) from error
    return Model(content["estimator"], content["step"], description)


@contextlib.contextmanager
def used(path: Path) -> Iterator[None]:
    """Replace errors of a loaded model by an error that names its file.

    A damaged model file may still be readable. `load_model` checks everything that
    could crash the process. Other damage appears when the model predicts.

    Parameters
    ----------
    path : Path
        File or folder of the model.

    Raises
    ------
    DataError
        In place of any exception except `UserError` and OSError, whose messages are
        complete, and MemoryError, of which the new rows are the cause.
    """
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        raise DataError(
            f"{path}: this model cannot be used ({one_line(error)})",
            "Its files may be damaged: train the model again. --debug shows where it "
            "failed.",
        ) from error


def read_if_it_fits(file: Path) -> bytes:
    """Return the content of a file of a model if it fits into the free memory.

    Raises
    ------
    DataError
        If it does not. A sparse file of terabytes may take up no space on the disk.
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
    """Return the options ``--trust TYPE`` that `mtlrun predict` needs for a model."""
    return _trust_options(_unknown_types(read_file(folder / ARCHIVE)))


def _trust_options(types: Iterable[str]) -> str:
    return " ".join(f"--trust {name}" for name in types)


def _unknown_types(archive: bytes, trusted: Set[str] = frozenset()) -> list[str]:
    """Return the types in an archive that are loaded only if the user trusts them."""
    skops = import_skops()
    untrusted = set(skops.io.get_untrusted_types(data=archive))
    return sorted(untrusted - LOADABLE - trusted)


def refuse_incomplete(folder: Path) -> None:
    """Refuse a model whose files a killed process has replaced only in part.

    The files may be those of the comparison that the model belongs to.

    Raises
    ------
    DataError
    """
    folders = [folder]
    comparison = Path(os.path.abspath(folder)).parent
    if (comparison / COMPARED).is_file():
        folders.append(comparison)
    for results in folders:
        if is_incomplete(results):
            raise DataError(
                f"{results}: the last results here are incomplete, because the command "
                "was killed while it replaced them",
                "Run that command again: it replaces them all.",
            )


def read_facts(folder: Path) -> ModelDescription:
    """Return the content of ``model.json``, with texts that are safe to display.

    Raises
    ------
    DataError
        If the file is missing, does not describe a model, or has been changed.
    """
    return read_fields(ModelDescription, cleaned(_read_description(folder)))


def model_folder(path: Path) -> Path:
    """Return the folder of a model.

    Parameters
    ----------
    path : Path
        The folder, a file in it, or the folder of a comparison.
    """
    if path.name in (ARCHIVE, FACTS) and not path.is_dir():
        return path.parent
    if (path / COMPARED).is_file() and not (path / FACTS).exists():
        return path / MODEL
    return path


def files_of(path: Path) -> list[Path]:
    """Return the files in the folder of a model and of its comparison.

    Commands must not write other files there.
    """
    folders = [model_folder(path)]
    comparison = folders[0].parent
    if (comparison / COMPARED).is_file():
        folders.append(comparison)
    files: list[Path] = []
    for folder in folders:
        if folder.is_dir():
            files += folder.iterdir()
    return files


def _read_description(folder: Path) -> dict[str, Any]:
    """Return the content of ``model.json`` as it was written."""
    file = folder / FACTS
    if folder.is_file():
        raise DataError(
            f"{folder} is not the folder of a model",
            "`mtlrun train` writes models as folders. Pickle and joblib files can run "
            "any code and are never loaded.",
        )
    description = read_raw(file)
    if description is None:
        raise DataError(f"{folder}: no model here (no {FACTS})", NO_MODEL)
    if description.get("schema") != SCHEMA:
        raise DataError(
            f"{file}: not a model description of schema {SCHEMA}",
            "Train the model again.",
        )
    for name in REQUIRED_FACTS:
        if description.get(name) is None:
            raise not_a_result(file, name, "is missing")
    fields_of_file(ModelDescription, description, file)
    try:
        return unsealed(dict(description))
    except ValueError as error:
        raise DataError(
            f"{file}: {error}; it was changed after it was written",
            "Train the model again.",
        ) from None


def _coefficients(model: Model) -> bytes | None:
    """Return the content of ``coefficients.npz``; None unless the model is linear."""
    coef = getattr(model.estimator, "coef_", None)
    if coef is None:
        return None
    names = transformed_names(model)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        coef=coef,
        intercept=getattr(model.estimator, "intercept_", np.zeros(len(coef))),
        tasks=np.asarray(model.description.tasks, dtype=str),
        features=np.asarray(names, dtype=str),
    )
    return buffer.getvalue()


def transformed_names(model: Model) -> Sequence[str]:
    """Return the names of the features that the estimator receives.

    Empty if they have no names.
    """
    names: Sequence[str] = model.description.input.names
    if not hasattr(model.step, "get_feature_names_out"):
        return names or ()
    input_names = np.asarray(names, dtype=object) if names else None
    return list(model.step.get_feature_names_out(input_names))


def _refuse_large(archive: bytes, name: str) -> None:
    """Refuse a model that would take far more memory than its archive.

    `save_model` does not compress members, except for sparse matrices, which are npz
    files of scipy. An array to which several objects refer is read for each of them.

    Parameters
    ----------
    archive : bytes
    name : str
        Name of the file in messages.

    Raises
    ------
    DataError
        If a member is compressed, or the content is too large.
    zipfile.BadZipFile, KeyError, ValueError, RecursionError
        If it is not an archive of skops.
    """
    limit = max(MAX_EXPANDED_BYTES, MAX_EXPANSION_FACTOR * len(archive))
    with zipfile.ZipFile(io.BytesIO(archive)) as members:
        infos = members.infolist()
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
            raise DataError(
                f"{name}: its members are compressed; mtlrun writes them uncompressed",
                UNTRUSTED_REMEDY,
            )
        _check_size(sum(info.file_size for info in infos), limit, name)
        sizes = {info.filename: info.file_size for info in infos}
        expanded_sizes: dict[str, int] = {}
        total = 0
        # Each object of the schema may be read from a member.
        pending = [json.loads(members.read(ARCHIVE_SCHEMA))]
        while pending:
            value = pending.pop()
            if isinstance(value, list):
                pending += value
            if not isinstance(value, dict):
                continue
            pending += value.values()
            file = value.get("file")
            if not isinstance(file, str):
                continue
            if file not in expanded_sizes:
                size = sizes.get(file, 0)
                if file.endswith(".npz") and file in sizes:
                    content = io.BytesIO(members.read(file))
                    with zipfile.ZipFile(content) as inner:
                        size = sum(info.file_size for info in inner.infolist())
                expanded_sizes[file] = size
            total += expanded_sizes[file]
            _check_size(total, limit, name)


def _check_size(size: int, limit: int, name: str) -> None:
    if size > limit:
        raise DataError(f"{name}: expands to more than {limit} bytes", UNTRUSTED_REMEDY)


def _refuse_partials(content: Any, trusted: Set[str], name: str) -> None:
    """Refuse a ``functools.partial`` of a function that is not allowed.

    Allowed are functions that the user trusts by name, and the functions of
    `PARTIAL_FUNCTIONS` with plain values for some of their keywords.

    Parameters
    ----------
    content : object
        Objects of an archive.
    trusted : set of str
        Types and functions that the user trusts.
    name : str
        Name of the file in messages.

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
        if function not in trusted and not (keywords and is_plain):
            raise UserError(
                f"{name}: contains a {PARTIAL} of {function}, which mtlrun cannot "
                "check",
                "Predicting calls that function. If you trust the source of the file, "
                f"add: {_trust_options([PARTIAL])}",
            )


def _is_plain(value: Any) -> bool:
    """Whether a value is a bool, None, a number type of numpy, or a list of these."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    is_number_type = isinstance(value, type) and issubclass(value, np.number)
    return value is None or isinstance(value, bool) or is_number_type
