import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tfoperator.launcher import (
    Artifact,
    Component,
    ComponentError,
    ExecutorContainerSpec,
    LaunchCancelled,
    LaunchContext,
    PermanentFailure,
    ProcessComponentLauncher,
    ProcessPlatformConfig,
    RetryableFailure,
    RetryPolicy,
)
from tfoperator.launcher.platforms.process import ProcessBackend
from tfoperator.launcher.platforms.stopping import stop_recorded


def launcher(folder: Path, script: str, lines: list[str], *words: str, **more: Any) -> ProcessComponentLauncher:
    spec = ExecutorContainerSpec("busybox", ["sh", "-c", script, *words])
    component = Component("step", spec, outputs={"out": [Artifact(str(folder / "out"))]})
    retry = RetryPolicy(attempts=3, initial=0.01, any_failure=more.pop("any_failure", False))
    context = LaunchContext(work_dir=folder / "work", retry=retry, log=lines.append)
    return ProcessComponentLauncher(component, ProcessPlatformConfig(more), context=context)


def test_a_command_runs_with_its_variables_its_outputs_and_a_python_of_its_own(tmp_path: Path) -> None:
    script = (
        'echo "$HUE"; echo data >"$0"; python3 -c "import sys, msgspec; print(sys.prefix)"; pip --version; printf end'
    )
    lines: list[str] = []
    result = launcher(tmp_path, script, lines, "{{ outputs.out.uri }}", HUE="red").launch()
    assert (Path(result.outputs["out"][0].uri).read_text(), lines[0], lines[3]) == ("data\n", "red", "end")
    assert lines[1].startswith(str(tmp_path / "work"))
    assert lines[2].startswith("pip ")
    assert not Path(lines[1]).exists()


def test_an_environment_made_in_that_python_has_what_was_installed_before_it_was_made(tmp_path: Path) -> None:
    """As a component of Kubeflow Pipelines does with `use_venv=True` and `packages_to_install`."""
    seen = 'python3 -c "import sys, installed_one, msgspec; print(sys.prefix)"'
    script = (
        'echo x = 1 >"$(python3 -c "import sysconfig as s; print(s.get_path(\'purelib\'))")/installed_one.py"; '
        "python3 -m venv inner --system-site-packages; . inner/bin/activate; "
        f"python3 -m venv innermost --system-site-packages --without-pip; {seen}; . innermost/bin/activate; {seen}; "
        "python3 -m venv alone --without-pip; . alone/bin/activate; "
        'python3 -c "import installed_one" 2>/dev/null || echo /alone; echo end >"$0"'
    )
    lines: list[str] = []
    launcher(tmp_path, script, lines, "{{ outputs.out.uri }}").launch()
    assert [line.rpartition("/")[2] for line in lines[:3]] == ["inner", "innermost", "alone"]


def test_a_failure_says_its_last_line_and_a_policy_may_try_it_again(tmp_path: Path) -> None:
    script = 'echo x >>"$0"; test $(wc -l <"$0") = 3 || { echo boom >&2; exit 4; }'
    with pytest.raises(PermanentFailure, match=r"exit code 4: boom"):
        launcher(tmp_path / "one", script, [], str(tmp_path / "n")).launch()
    launcher(tmp_path / "two", script, [], str(tmp_path / "n"), any_failure=True).launch()
    assert (tmp_path / "n").read_text() == "x\n" * 3


def test_what_can_be_no_process_is_refused(tmp_path: Path) -> None:
    def of(*command: str) -> ProcessComponentLauncher:
        component = Component("step", ExecutorContainerSpec("busybox", list(command)))
        return ProcessComponentLauncher(component, context=LaunchContext(work_dir=tmp_path / str(len(command))))

    with pytest.raises(ComponentError, match="needs a command"):
        of().check()
    with pytest.raises(ComponentError, match="A=B"):
        ProcessPlatformConfig({"A=B": ""})
    with pytest.raises(PermanentFailure, match="can't be started"):
        of("true", "x" * 200_000).launch()
    with pytest.raises(PermanentFailure, match=r"exit code 127: .*not found"):
        of("exit", "0", "").launch()  # the shell's own would end the shell that keeps the code


def test_cancelling_stops_the_whole_group(tmp_path: Path) -> None:
    lines: list[str] = []
    component_launcher = launcher(tmp_path, "trap 'echo bye; exit 3' TERM; echo begun; sleep 60 & wait", lines)
    running = InThread(component_launcher.launch)
    eventually(lambda: "begun" in lines)
    component_launcher.cancel()
    with pytest.raises(LaunchCancelled):
        running.result()
    assert lines == ["begun", "bye"]


def test_a_program_that_answers_a_signal_to_its_whole_group_with_0_is_begun_anew(tmp_path: Path) -> None:
    """As at the machine's shutdown."""
    lines: list[str] = []
    script = f"trap 'exit 0' TERM; test -e {tmp_path}/go && exit 0; echo begun; while :; do sleep 0.05; done"
    running = InThread(launcher(tmp_path, script, lines).launch)
    eventually(lambda: "begun" in lines)
    (tmp_path / "go").touch()
    (pid,) = (tmp_path / "work" / "processes").glob("*/pid")
    os.killpg(int(pid.read_text()), signal.SIGTERM)
    assert running.result().attempts == 2


KILLED = """
import sys
from pathlib import Path
from tests.unit.launcher.platforms.test_process import launcher
launcher(Path(sys.argv[1]), sys.argv[2], []).launch()
"""


@pytest.mark.parametrize("how", ["resumed", "stopped", "spoilt", "lost"])
def test_a_process_outlives_its_launcher_for_the_next(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"echo begun >>{tmp_path}/begun; echo one; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo two"
    first = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), script], cwd=Path.cwd())
    eventually(lambda: (tmp_path / "begun").exists() and b"created" in (tmp_path / "work/launch.json").read_bytes())
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    lines: list[str] = []
    again = launcher(tmp_path, script, lines)
    (pid,) = (tmp_path / "work" / "processes").glob("*/pid")
    if how == "resumed":
        threading.Timer(0.2, (tmp_path / "go").touch).start()
        again.launch()
        assert lines[-1] == "two"
        assert (tmp_path / "begun").read_text() == "begun\n"
    elif how == "stopped":
        record = stop_recorded(tmp_path / "work", again.context, "it was killed")
        assert record.state == "cancelled"
        (tmp_path / "go").touch()
        assert not pid.parent.exists()
    elif how == "spoilt":
        sent: list[int] = []
        monkeypatch.setattr(os, "killpg", lambda group, _: sent.append(group))
        pid.write_text("1")  # all processes that we may signal
        threading.Timer(0.5, (tmp_path / "go").touch).start()
        stop_recorded(tmp_path / "work", again.context, "it was killed")
        assert sent == []
    else:
        os.killpg(int(pid.read_text()), signal.SIGKILL)
        (tmp_path / "go").touch()
        again.launch()  # it was taken away, and is begun anew
        assert (tmp_path / "begun").read_text() == "begun\n" * 2


def test_a_process_of_another_machine_is_not_taken_for_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component_launcher = launcher(tmp_path, "sleep 0.5", [])
    created = ProcessBackend.create
    monkeypatch.setattr(ProcessBackend, "create", lambda *given: created(*given) and "elsewhere")
    with pytest.raises(RetryableFailure, match="the machine elsewhere"):
        component_launcher.launch()
