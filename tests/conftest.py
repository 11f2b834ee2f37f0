"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# Tests are never timed: on a busy machine an example may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def own_timing_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let timed cells of the tests wait for no other run on this machine, nor the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield
