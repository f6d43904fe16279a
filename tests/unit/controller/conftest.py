from collections.abc import Iterator

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


@pytest.fixture
def clocked(clock: FakeClock) -> Iterator[Harness]:
    """A harness whose time passes when the test advances it."""
    with Harness(clock=clock) as harness:
        yield harness
