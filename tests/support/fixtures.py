"""Fixtures that several test packages share: a conftest imports those that it wants."""

from __future__ import annotations

import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.support.threads import every_thread_ends

__all__ = ["api", "clock", "every_thread_ends"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock.now)
