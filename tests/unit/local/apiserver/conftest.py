import pytest

from tests.unit.local.apiserver.samples import World


@pytest.fixture
def world() -> World:
    return World()
