from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tfoperator.kube.client import Client, HttpCreator


@pytest.fixture
def creator_of() -> Iterator[Callable[..., HttpCreator]]:
    made: list[HttpCreator] = []

    def make(client: Client, parallelism: int = 4) -> HttpCreator:
        made.append(client.creator(parallelism))
        return made[-1]

    yield make
    for one in made:
        one.close()
