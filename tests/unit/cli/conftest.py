from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.support.served import ServedWorld, served, world
from tfoperator.cli.__main__ import main

__all__ = ["Said", "Tell", "served", "world"]


class Said(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


Tell = Callable[..., Said]


@pytest.fixture
def tell(world: ServedWorld, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Runs a command against the test's namespace."""

    def run(command: str, *arguments: str) -> Said:
        code = main([command, *arguments, "--kubeconfig", str(world.kubeconfig)])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Said(code, captured.out, captured.err)

    return run
