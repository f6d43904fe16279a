"""Fixtures of servers on loopback that several test packages share: PostgreSQL, and S3."""

from collections.abc import Iterator

import pytest

from hack.postgres import PostgresServer, postgres_server
from hack.s3_server import s3_server

__all__ = ["postgres", "postgres_process", "s3", "s3_variables"]


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
    with s3_server() as variables:
        yield variables


@pytest.fixture
def s3(s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same, set for this test."""
    for name, value in s3_variables.items():
        monkeypatch.setenv(name, value)
    return s3_variables
