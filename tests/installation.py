"""A fixture that moves the installation of the package."""

import pytest

from mtlrun.utils import io


@pytest.fixture
def install(monkeypatch):
    """Return a function that looks for shipped files beside and in another package.

    It makes the folder of that package in a root folder, and returns it.
    """

    def into(root):
        package = root / "mtlrun"
        package.mkdir(exist_ok=True)
        monkeypatch.setattr(io, "_PACKAGE", package)
        return package

    return into
