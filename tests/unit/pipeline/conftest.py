from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services import postgres, postgres_process
from tests.support.threads import no_threads_left
from tests.unit.pipeline.samples import DATABASES, DONE, ON_THE_WAY, OPENED, Place

__all__ = ["counted", "place", "postgres", "postgres_process"]

ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    """Forget the records of the test before, and check that no thread of this test still runs."""
    DONE.clear()
    ON_THE_WAY.clear()
    with no_threads_left():
        yield
    ON_THE_WAY.clear()


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where the records of this test are, which is in turn on each engine: see `samples.home_of`."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres")
        DATABASES[tmp_path] = f"{server.database(tmp_path.name)}?folder={tmp_path}/home"
    yield DATABASES.get(tmp_path, tmp_path / "home")
    DATABASES.pop(tmp_path, None)
    while OPENED:
        OPENED.pop().close()
