"""What classes print in this process: each its own, whoever else prints at the same time."""

from __future__ import annotations

import contextlib
import contextvars
import io
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.threads import InThread
from tfoperator.launcher.platforms.own_output import own_output


def test_of_two_that_print_side_by_side_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    both = threading.Barrier(2)

    def work(name: str) -> list[str]:
        lines: list[str] = []
        with own_output(lines.append):
            for number in range(20):
                both.wait(60)
                print(name, end=" ")
                both.wait(60)
                print(number)
        return lines

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(work, ("one", "other"))
    assert one == [f"one {number}" for number in range(20)]
    assert other == [f"other {number}" for number in range(20)]
    assert capsys.readouterr() == ("", "")


def test_what_others_print_meanwhile_goes_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    with own_output(lines.append):
        print("mine")
        InThread(lambda: print("another's")).result(60)
    print("afterwards")
    assert lines == ["mine"]
    assert capsys.readouterr().out == "another's\nafterwards\n"


def test_the_streams_are_put_back_by_the_last() -> None:
    before = sys.stdout, sys.stderr
    with own_output(print):
        with own_output(print):
            assert sys.stdout is not before[0]
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before


def test_what_is_said_of_a_line_goes_on_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever gets a line may print it: that is no new line."""
    with own_output(lambda line: print(f"[step] {line}")):
        print("half", end="")
        assert capsys.readouterr().out == ""
        print("-way", flush=True)
        assert capsys.readouterr().out == "[step] half-way\n"
        print("the rest", end="")
    assert capsys.readouterr().out == "[step] the rest\n"


def _print() -> None:
    print("out", "and\nout again")


def _complain() -> None:
    sys.stderr.writelines(["err\n", "without an end"])


def _redirect() -> None:
    elsewhere = io.StringIO()
    with contextlib.redirect_stdout(elsewhere):
        print("kept by the class")
    print("back")


def _in_a_thread_with_the_context() -> None:
    context = contextvars.copy_context()
    InThread(lambda: context.run(print, "in a thread")).result(60)


@pytest.mark.parametrize(
    ("work", "lines"),
    [
        (_print, ["out and", "out again"]),
        (_complain, ["err", "without an end"]),
        (_redirect, ["back"]),
        (_in_a_thread_with_the_context, ["in a thread"]),
        (lambda: print("\r1 %\r2 %"), ["\r1 %\r2 %"]),
        (lambda: print("x" * 100_000), ["x" * 65536, "x" * (100_000 - 65536)]),
    ],
)
def test_lines_come_whole(work: Callable[[], None], lines: list[str]) -> None:
    found: list[str] = []
    with own_output(found.append):
        work()
    assert found == lines


def test_the_rest_of_a_stream_is_as_it_was() -> None:
    before = sys.stdout
    with own_output(print):
        assert (sys.stdout.encoding, sys.stdout.isatty()) == (before.encoding, before.isatty())
        assert sys.stdout.writable()
