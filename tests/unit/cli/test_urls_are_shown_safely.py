"""URLs that a user gives are printed without passwords.

A password in `--home` was printed by some commands in 2026-11, once more after an earlier release had mended it.
"""

from collections.abc import Iterator

import pytest
import typer.main

from tests.unit.cli.conftest import Run
from tfoperator.cli.app import make_app

SECRET = "PASSWORD42"
URLS = (
    f"s3://u:{SECRET}@bucket/x",
    f"postgresql+psycopg://u:{SECRET}@127.0.0.1:1/db",
    f"postgresql://u:{SECRET}@127.0.0.1:1/db?folder=/tmp/x",
    f"postgresql://127.0.0.1:1/db?sslpassword={SECRET}&folder=/tmp/x",
    f"postgresql://127.0.0.1:1/db?folder=s3://u:{SECRET}@bucket/x",
    f"postgresql://127.0.0.1:1/db?folder=ftp://u:{SECRET}@host/x",
    f"mysql://u:{SECRET}@127.0.0.1/db",
    f"https://u:{SECRET}@[::1/db",
)


def commands_with_a_home() -> Iterator[list[str]]:
    """The words of each command that takes the URL of a place, with something for each argument."""

    def visit(command: object, words: list[str]) -> Iterator[list[str]]:
        for name, below in getattr(command, "commands", {}).items():
            yield from visit(below, [*words, name])
        for parameter in getattr(command, "params", []):
            if parameter.name in ("home", "pipelines"):
                needed = ["x.py" for param in command.params if param.param_type_name == "argument" and param.required]  # type: ignore[attr-defined]
                yield [*words, *needed, parameter.opts[0]]

    return visit(typer.main.get_command(make_app()), [])


COMMANDS = list(commands_with_a_home())


def test_there_are_such_commands() -> None:
    assert len(COMMANDS) >= 8, COMMANDS


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_prints_the_password_of_a_place(command: list[str], run: Run, tmp_path: object) -> None:
    for url in URLS:
        result = run(*command, url)
        assert SECRET not in result.out + result.err, url
        assert result.code not in (0, 70), url
