"""A package of the user's own, and a cache folder that nothing else uses."""

import sys
import textwrap

import pytest

from mtlrun.runs import code


class Package:
    """The package `own` in a folder on the path."""

    def __init__(self, root):
        self.root = root
        self.write("__init__.py", "")

    def write(self, name, text):
        """Write a file of the package and forget what was imported of it."""
        path = self.root / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        forget()
        return path


def forget():
    for name in [n for n in sys.modules if n.partition(".")[0] == "own"]:
        del sys.modules[name]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The file that remembers digests and facts; of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    code._read.cache_clear()
    yield tmp_path / "cache" / "mtlrun" / "code.json"
    code._read.cache_clear()


@pytest.fixture
def own(tmp_path, monkeypatch, cache):
    """A package `own` with a module `models` that imports `helper`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    package = Package(tmp_path)
    package.write(
        "models.py",
        '''
        """Models of the user."""
        from own.helper import shrink

        class Ridge:
            """A model."""

            def __init__(self, alpha=1.0, *, slow=False):
                self.alpha, self.slow = alpha, slow

            def fit(self, X, y):
                """Solve."""
                return shrink(self.alpha)
        ''',
    )
    package.write("helper.py", "def shrink(alpha):\n    return 1.0 * alpha\n")
    yield package
    forget()
