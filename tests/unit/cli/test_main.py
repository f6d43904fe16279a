import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer

import tfoperator
from tests.unit.cli.conftest import Run
from tfoperator.api.loading import ManifestError
from tfoperator.cli import app as cli_app
from tfoperator.cli.__main__ import main
from tfoperator.cli.terminal.complaints import explained
from tfoperator.cli.terminal.errors import CliError
from tfoperator.kube.protocol.errors import ConfigError, Status, TransportError, error_from_status


@pytest.fixture
def run_failing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    """Runs a command that raises the given error; returns the exit code and the printed text.

    The logs about internal errors are in `tmp_path`.
    """
    make_app = cli_app.make_app

    def run(error: BaseException, *flags: str) -> tuple[int, str]:
        def with_failure(words: Sequence[str]) -> typer.Typer:
            app = make_app(words)

            @app.command("fail")
            def fail() -> None:
                raise error

            return app

        monkeypatch.setattr(cli_app, "make_app", with_failure)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        return main([*flags, "fail"]), capsys.readouterr().err

    return run


def test_the_version_and_the_commands_are_told_and_help_uses_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    assert run("--version", code=0).out == f"tfoperator {tfoperator.__version__}\n"
    text = run("-h", code=0).out
    assert all(command in text for command in ("run", "local", "validate", "crd", "operator"))
    monkeypatch.setenv("COLUMNS", "300")
    assert "0: all jobs succeeded. 1: a job failed. 2: bad input." in run("run", "--help", code=0).out


@pytest.mark.parametrize("arguments", [["vlidate"], ["validate"], ["crd", "--wrong"], ["crd", "-o", "xml"], []])
def test_wrong_usage_is_exit_code_2(arguments: list[str], run: Run) -> None:
    result = run(*arguments, code=2)
    assert "Usage" in result.err + result.out


def test_a_users_mistake_is_told_with_what_to_do_next_and_a_bug_is_one_line_and_a_file_with_the_traceback(
    run_failing: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    result = run_failing(CliError("no job named x", "Try: tfoperator get"))
    assert result == (2, "tfoperator: no job named x\nTry: tfoperator get\n")
    code, text = run_failing(KeyError("replicas"))
    (log,) = tmp_path.iterdir()
    bug = f"This is a bug in tfoperator. Python's traceback is in {log}"
    expected = f"tfoperator: internal error: KeyError: 'replicas'\n{bug}\n"
    assert (code, text) == (70, expected)
    assert "Traceback (most recent call last)" in log.read_text()
    for shown, error, *flags in ((True, KeyError("replicas"), "--debug"), (False, KeyboardInterrupt())):
        code, text = run_failing(error, *flags)
        assert (code, "Traceback (most recent call last)" in text) == (70 if shown else 130, shown)


def test_an_argument_that_is_no_utf8_is_no_bug(
    run_failing: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = UnicodeEncodeError("utf-8", "x\udcff", 1, 2, "surrogates not allowed")
    monkeypatch.setattr(cli_app, "_root", lambda namespace="": None)
    assert run_failing(error, "--namespace", "x\udcff") == (2, "tfoperator: x\\udcff: is not UTF-8\n")
    monkeypatch.undo()
    code, text = run_failing(error)
    assert (code, "internal error" in text) == (70, True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ManifestError("job.yaml", "is empty", 3), ("job.yaml:3: is empty", 2)),
        (ConfigError("no kubeconfig"), ("no kubeconfig", 2)),
        (TransportError("reset"), ("reset", 1)),
        (error_from_status(Status(code=403, message="you may not")), ("you may not", 1)),
        (error_from_status(Status(code=404, message="not found")), ("not found", 1)),
        (FileNotFoundError(2, "No such file or directory", "x.log"), ("x.log: No such file or directory", 1)),
        (ValueError("x"), None),
        (OSError("no file is named"), None),
    ],
)
def test_errors_of_lower_floors_speak_to_a_user_and_others_are_not_explained_away(
    error: Exception, expected: tuple[str, int] | None
) -> None:
    explanation = explained(error)
    assert (explanation and (explanation.message, explanation.exit_code)) == expected


def test_the_module_runs_as_a_program_and_a_closed_pipe_is_no_news() -> None:
    command = f"{sys.executable} -m tfoperator.cli crd | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)  # noqa: S602
    assert (done.stdout, done.stderr) == ("apiVersion: apiextensions.k8s.io/v1\n", "")


@pytest.mark.parametrize(
    ("option", "first"),
    [("--version", f"tfoperator {tfoperator.__version__}\n"), ("--help", "usage: tfoperator operator")],
)
def test_the_operator_has_its_own_help_and_starts_without_the_command_lines_libraries(option: str, first: str) -> None:
    code = (
        "import sys; from tfoperator.cli.__main__ import main\n"
        f"try: main(['operator', '{option}'])\n"
        "except SystemExit: pass\n"
        "unwanted = {'typer', 'rich', 'aiohttp', 'kubernetes', 'tfoperator.local', 'tfoperator.cli.app'}\n"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(first)
    assert done.stdout.endswith("\n[]\n")
    assert ("--leader-elect" in done.stdout) is (option == "--help")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "full"),
    [("crd", "stdout"), ("--help", "stdout"), ("run absent.yaml", "stderr"), ("run --wrong", "stderr")],
)
def test_a_full_disk_is_no_bug_behind_the_output_and_nothing_behind_standard_error(
    arguments: str, full: str, unbuffered: str
) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as disk:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, full: disk}
        command = [sys.executable, "-m", "tfoperator", *arguments.split()]
        done = subprocess.run(command, **streams, env=environment, text=True, check=False)
    expected = (1, "tfoperator: a file can't be written: No space left on device\n") if full == "stdout" else (2, "")
    assert (done.returncode, done.stderr or done.stdout) == expected


_LAST_LOOK = """
import atexit, gc, sys
from tfoperator.cli.__main__ import main
before = gc.get_threshold()[0]
atexit.register(lambda: print(gc.get_threshold()[0] / before > 10, gc.isenabled(), gc.get_freeze_count() > 0))
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [("sys.argv = ['tfoperator', '--version']; main()", "True True True"), ("main(['--version'])", "False True False")],
)
def test_the_command_collects_garbage_rarely_and_not_at_its_end_and_a_caller_in_python_as_before(
    call: str, expected: str
) -> None:
    done = subprocess.run([sys.executable, "-c", _LAST_LOOK + call], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines()[-1] == expected


def test_a_command_that_goes_on_collects_garbage_more_often_after_the_first_time() -> None:
    program = """
import gc, sys, weakref
from tfoperator.cli.__main__ import main
class Node:
    pass
sys.argv = ["tfoperator", "--version"]
main()
first = gc.get_threshold()[0]
kept = [[] for _ in range(first)]
frozen, later = gc.get_freeze_count(), gc.get_threshold()[0]
node = Node()
node.itself, seen = node, weakref.ref(node)
del node
kept += [[] for _ in range(2 * later)]
print(frozen > first / 2, 700 < later < first, seen() is None, gc.callbacks)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True True True []"
