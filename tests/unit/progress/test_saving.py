from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tfoperator.progress import NotInMainThread, Saving, reporting
from tfoperator.progress.saving import EXIT_CODE


def test_it_saves_each_interval_counted_from_where_the_loop_began() -> None:
    saves: list[int] = []
    with Saving(saves.append, every=10) as saving:
        for step in range(8, 40):
            saving.after_step(step)
    assert saves == [17, 27, 37]


def test_an_interval_holds_for_steps_that_are_counted_in_batches() -> None:
    saves: list[int] = []
    with Saving(saves.append, every=10) as saving:
        for step in range(4, 40, 4):
            saving.after_step(step)
    assert saves == [16, 28]  # 3 + 10, and 16 + 10


def test_an_announced_end_is_saved_after_the_step_and_ends_the_program() -> None:
    saves: list[int] = []
    with Saving(saves.append) as saving:
        saving.after_step(1)
        assert not saving.end_announced
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert saving.end_announced
        with pytest.raises(SystemExit) as ended:
            saving.after_step(2)
    assert (saves, ended.value.code) == ([2], EXIT_CODE)


def test_an_end_that_is_announced_amid_a_save_needs_no_other() -> None:
    saves: list[int] = []

    def save(step: int) -> None:
        signal.raise_signal(signal.SIGTERM)
        saves.append(step)

    with pytest.raises(SystemExit), Saving(save, every=1) as saving:
        saving.after_step(7)
    assert saves == [7]


def test_a_save_that_fails_ends_the_loop_with_its_own_error() -> None:
    def save(step: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), Saving(save, every=1) as saving:
        saving.after_step(7)


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL, lambda *_: None])
def test_what_handled_sigterm_before_does_so_again(before: signal.Handlers) -> None:
    others = signal.signal(signal.SIGTERM, before)
    try:
        with Saving(print):
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, others)


def test_in_another_thread_it_says_where_it_belongs() -> None:
    errors: list[Exception] = []

    def enter() -> None:
        try:
            with Saving(print):
                pass
        except NotInMainThread as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(60)
    assert "main thread" in str(errors[0])


def test_each_later_report_has_the_step_that_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "_kept", {})
    sent: list[dict[str, str]] = []

    class Sender:
        def put(self, status: dict[str, list[dict[str, str]]], *, at_once: bool) -> None:
            sent.append({one["name"]: one["value"] for one in status["metrics"]})

    monkeypatch.setattr(reporting, "sender", Sender)
    with Saving(lambda step: None, every=5) as saving:
        for step in range(1, 8):
            saving.after_step(step)
            reporting.report(step=step)
    assert [one.get("saved_step") for one in sent] == [None] * 4 + ["5"] * 3
    assert float(sent[-1]["save_seconds"]) >= 0


def test_a_loop_that_ends_first_lets_the_program_go_on(tmp_path: Path) -> None:
    program = """
        import os, signal
        from tfoperator.progress import Saving
        with Saving(print) as saving:
            saving.after_step(1)
            os.kill(os.getpid(), signal.SIGTERM)
        print("the model is written")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "the model is written\n")
