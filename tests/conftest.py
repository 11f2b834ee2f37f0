"""What holds for all tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def own_timing_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let timed cells of the tests wait for no other run on this machine, nor the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield
