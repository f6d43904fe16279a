import io
import sys

import pytest

from tests.support.eventually import eventually
from tfoperator.cli.terminal.progress import StatusLine


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with StatusLine("working", patience=30):
        pass
    assert capsys.readouterr().err == ""


def test_what_takes_long_is_told_and_so_is_each_change(capsys: pytest.CaptureFixture[str]) -> None:
    err = ""

    def is_shown(text: str) -> bool:
        nonlocal err
        err += capsys.readouterr().err
        return text in err

    with StatusLine("one", patience=0.05) as progress:
        eventually(lambda: is_shown("one"))
        progress.update("two")
        progress.update("two")
        progress.update("")
        progress.update("three")
        eventually(lambda: is_shown("three"))
    assert err == "one\ntwo\nthree\n"


def test_on_a_terminal_it_is_a_spinner_that_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with StatusLine("waiting for [red]", patience=0.02):
        eventually(lambda: "waiting for [red]" in terminal.getvalue())
    assert terminal.getvalue().endswith("\x1b[2K")
