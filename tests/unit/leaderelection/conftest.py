from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.threads import no_threads_left


@pytest.fixture(autouse=True)
def _every_thread_ends() -> Iterator[None]:
    with no_threads_left():
        yield
