import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.threads import InThread
from tfoperator.progress import NotInMainThread, Saving, reporting
from tfoperator.progress.saving import EXIT_CODE


@pytest.mark.parametrize(
    ("steps", "saved"),
    [(range(8, 40), [17, 27, 37]), (range(4, 40, 4), [16, 28])],
    ids=["from where the loop began", "counted in batches"],
)
def test_it_saves_each_interval(steps: range, saved: list[int]) -> None:
    saves: list[int] = []
    with Saving(saves.append, every=10) as saving:
        for step in steps:
            saving.after_step(step)
    assert saves == saved


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


def test_connected_jax_processes_end_after_the_step_that_jax_has_them_agree_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def reached_preemption_sync_point(step: int) -> bool:
        asked.append(step)
        return step == 7

    utils = SimpleNamespace(reached_preemption_sync_point=reached_preemption_sync_point)
    jax = SimpleNamespace(process_count=lambda: 2, distributed=SimpleNamespace(is_initialized=lambda: True))
    for name, module in (("jax", jax), ("jax.experimental", utils), ("jax.experimental.multihost_utils", utils)):
        monkeypatch.setitem(sys.modules, name, module)
    before = signal.getsignal(signal.SIGTERM)
    saves: list[int] = []
    with Saving(saves.append) as saving:
        assert signal.getsignal(signal.SIGTERM) is before, "JAX gets the signal, in any process"
        saving.after_step(5)
        saving.after_step(6)
        with pytest.raises(SystemExit) as ended:
            saving.after_step(7)
    assert (saves, asked, ended.value.code) == ([7], [5, 6, 7], EXIT_CODE)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("processes", "connected"), [(1, True), (2, False)])
def test_one_jax_process_hears_by_itself(monkeypatch: pytest.MonkeyPatch, processes: int, connected: bool) -> None:
    distributed = SimpleNamespace(is_initialized=lambda: connected)
    jax = SimpleNamespace(process_count=lambda: processes, distributed=distributed)
    monkeypatch.setitem(sys.modules, "jax", jax)
    with Saving(print) as saving:
        signal.raise_signal(signal.SIGTERM)
        assert saving.end_announced


@pytest.mark.parametrize(("failure", "ends"), [(None, SystemExit), (OSError("disk full"), OSError)])
def test_an_end_amid_a_save_needs_no_other_save(failure: Exception | None, ends: type[BaseException]) -> None:
    saves: list[int] = []

    def save(step: int) -> None:
        signal.raise_signal(signal.SIGTERM)
        saves.append(step)
        if failure is not None:
            raise failure

    with pytest.raises(ends) as ended, Saving(save, every=1) as saving:
        saving.after_step(7)
    assert saves == [7]
    assert failure in (None, ended.value)


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
    with pytest.raises(NotInMainThread, match="main thread"):
        InThread(lambda: Saving(print).__enter__()).result()


def test_each_later_report_has_the_step_that_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "_kept", {})
    sent: list[dict[str, str]] = []

    class Sender:
        def put(self, status: dict[str, list[dict[str, str]]], *, at_once: bool) -> None:
            sent.append({metric["name"]: metric["value"] for metric in status["metrics"]})

    monkeypatch.setattr(reporting, "sender", Sender)
    with Saving(lambda step: None, every=5) as saving:
        for step in range(1, 8):
            saving.after_step(step)
            reporting.report(step=step)
    assert [report.get("saved_step") for report in sent] == [None] * 4 + ["5"] * 3
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
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "the model is written\n")


SERVER = textwrap.dedent(
    """
    import signal, threading, time
    from tfoperator.progress import serve_chief

    def tell():
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.01)
        print("up", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    serve_chief()
    """
)


@pytest.mark.parametrize("of", ["chief", "master", None])
def test_who_serves_the_chief_stays_until_that_has_ended(of: str | None) -> None:
    chief = socket.create_server(("127.0.0.1", 0))
    chief.settimeout(60)
    cluster = {of: [f"localhost:{chief.getsockname()[1]}"]} if of else {"ps": ["localhost:1"]}
    variables = {**os.environ, "TF_CONFIG": json.dumps({"cluster": {"worker": ["localhost:2"], **cluster}})}
    with (
        chief,
        subprocess.Popen([sys.executable, "-c", SERVER], env=variables, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "up\n"
            server.send_signal(signal.SIGTERM)
            for _ in range(2 if of else 0):
                chief.accept()[0].close()
            chief.close()
            assert server.wait(60) == EXIT_CODE
        finally:
            server.kill()
