"""Where the files shipped with mtlrun lie. Standard library only.

A wheel carries them inside the package (``mtlrun/_configs``, ``mtlrun/_datasets``); a checkout, also when it is
installed in editable mode, has them beside the package (``configs/``, ``datasets/``).
"""

from __future__ import annotations

from pathlib import Path

from mtlrun.errors import MtlrunError

_PACKAGE = Path(__file__).resolve().parents[1]


def configs_dir() -> Path:
    """Return the folder of the shipped experiments, ``<paper>/<artefact>.yaml``.

    Raises
    ------
    MtlrunError
        If this installation lacks them.
    """
    return _shipped("configs")


def datasets_dir() -> Path:
    """Return the folder of the shipped data cards, ``<id>.yaml``.

    Raises
    ------
    MtlrunError
        If this installation lacks them.
    """
    return _shipped("datasets")


def checkout_dir() -> Path | None:
    """Return the root of the checkout that the package is imported from, None for an installed wheel."""
    root = _PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and not (_PACKAGE / "_configs").is_dir() else None


def _shipped(name: str) -> Path:
    inside = _PACKAGE / f"_{name}"
    if inside.is_dir():
        return inside
    root = checkout_dir()
    if root is not None and (root / name).is_dir():
        return root / name
    raise MtlrunError(f"this installation of mtlrun has no {name} folder (looked for {inside}); reinstall mtlrun")
