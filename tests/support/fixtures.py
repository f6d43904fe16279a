"""Fixtures that several test packages share: a conftest imports those that it wants."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.postgres import PostgresServer, postgres_server
from hack.s3_server import s3_server
from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.support.threads import every_thread_ends

__all__ = ["api", "clock", "every_thread_ends", "give_away", "postgres", "postgres_process", "s3", "s3_variables"]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock.now)


@pytest.fixture(scope="session")
def postgres_process() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_process: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """The same, with what its clients need in the environment."""
    monkeypatch.setenv("PGPASSFILE", str(postgres_process.passfile))
    return postgres_process


@pytest.fixture(scope="module")
def s3_variables() -> Iterator[dict[str, str]]:
    """An S3 server; the variables by which its clients find it."""
    with s3_server() as found:
        yield found


@pytest.fixture
def s3(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same, set for this test."""
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    return s3_variables


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a folder another user's. A test that does not run as root makes itself another user instead."""

    def to_another(folder: Path) -> None:
        if os.geteuid() == 0:
            os.chown(folder, 4242, 4242)
        else:
            monkeypatch.setattr("os.geteuid", lambda: 4242)

    return to_another
