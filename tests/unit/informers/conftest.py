from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.eventually import eventually


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Iterator[None]:
    """Whatever a test of this package starts must be gone when it ends."""
    before = set(threading.enumerate())
    yield
    # A removed handler's thread ends on its own time, hence the patience; a leak never ends.
    eventually(
        lambda: not [thread for thread in threading.enumerate() if thread not in before],
        within=5,
        what=f"threads left behind: {[t.name for t in threading.enumerate() if t not in before]}",
    )
