"""The shipped files are found from a checkout and from an installed wheel."""

import pytest

from mtlrun.errors import MtlrunError
from mtlrun.utils import io as resources


@pytest.mark.parametrize("function", [resources.configs_dir, resources.datasets_dir])
def test_files_are_found_in_this_installation(function):
    assert function().is_dir()


def test_files_are_found_in_a_wheel(tmp_path, install):
    package = install(tmp_path)
    for folder in ("mtlrun/_configs", "mtlrun/_datasets", "configs"):
        (tmp_path / folder).mkdir()
    # Of another project
    (tmp_path / "pyproject.toml").touch()
    assert resources.configs_dir() == package / "_configs"
    assert resources.datasets_dir() == package / "_datasets"
    assert resources.checkout_dir() is None


def test_files_are_found_in_a_checkout(tmp_path, install):
    install(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "datasets").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert resources.configs_dir() == tmp_path / "configs"
    assert resources.datasets_dir() == tmp_path / "datasets"
    assert resources.checkout_dir() == tmp_path


def test_a_folder_beside_an_installed_package_is_not_confused_with_ours(
    tmp_path, install
):
    install(tmp_path)
    (tmp_path / "configs").mkdir()
    with pytest.raises(MtlrunError, match=r"no configs folder .* reinstall"):
        resources.configs_dir()
