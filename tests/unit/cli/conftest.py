import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import typer.main

from tests.support.served import ServedWorld, every_thread_ends, served, world
from tests.support.services import postgres, postgres_process
from tfoperator.cli.__main__ import main

__all__ = ["CommandResult", "Run", "Tell", "every_thread_ends", "postgres", "postgres_process", "served", "world"]


class CommandResult(NamedTuple):
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., CommandResult]
Tell = Run


@pytest.fixture(autouse=True, scope="session")
def signatures() -> Iterator[None]:
    """Read the signatures of all commands once: that takes four fifths of the time of a command that does little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_params_from_function", functools.cache(typer.main.get_params_from_function))
        yield


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; with `code`, it has to end with this exit code."""

    def run(*arguments: str, code: int | None = None) -> CommandResult:
        result = CommandResult(main(list(arguments)), *capsys.readouterr())
        assert "Traceback" not in result.err
        assert code in (None, result.code), result
        return result

    return run


@pytest.fixture
def tell(world: ServedWorld, run: Run) -> Tell:
    """As `run`, against the test's namespace."""
    return lambda *arguments, code=None: run(*arguments, "--kubeconfig", str(world.kubeconfig), code=code)
