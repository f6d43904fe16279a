"""Fixtures that several test packages share: a conftest imports those that it wants."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.support.threads import every_thread_ends

__all__ = ["api", "clock", "every_thread_ends", "give_away"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock.now)


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a folder another user's. A test that does not run as root makes itself another user instead."""

    def to_another(folder: Path) -> None:
        if os.geteuid() == 0:
            os.chown(folder, 4242, 4242)
        else:
            monkeypatch.setattr("os.geteuid", lambda: 4242)

    return to_another
