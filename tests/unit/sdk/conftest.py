from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.served import Served, ServedWorld, serving
from tests.support.threads import no_threads_left


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.fixture
def world(served: Served, tmp_path: Path) -> Iterator[ServedWorld]:
    with no_threads_left():
        yield ServedWorld(served, tmp_path)
