from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.unit.kube.http.creations import Creator
from tfoperator.kube.client import Client


@pytest.fixture
def creator_of() -> Iterator[Callable[..., Creator]]:
    made: list[Creator] = []

    def make(client: Client, parallelism: int = 4) -> Creator:
        made.append(Creator(client, parallelism))
        return made[-1]

    yield make
    for one in made:
        one.close()
