from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.threads import no_threads_left
from tests.unit.pipeline.samples import DONE, ON_THE_WAY


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    """Nothing of the test before counts, and nothing of this one is left running."""
    DONE.clear()
    ON_THE_WAY.clear()
    with no_threads_left():
        yield
    ON_THE_WAY.clear()
