import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import CommandResult, Run
from tfoperator.launcher import BaseComponentLauncher
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory

SAYS = "tests.unit.launcher.executors:Says"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    return tmp_path


@pytest.fixture
def launch(folder: Path, run: Run) -> Run:
    def launch(document: dict[str, Any], *arguments: str) -> CommandResult:
        (folder / "component.yaml").write_text(json.dumps({"name": "step", **document}))
        return run("launch", "component.yaml", *arguments)

    return launch


def says(folder: Path, *words: str) -> dict[str, Any]:
    return {"class": SAYS, "parameters": {"says": list(words), "tries": str(folder / "tries")}}


BUSY = '{"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}}'
BAD = '{"error_status": {"code": "PERMANENT_ERROR", "message": "bad"}}'


def test_the_exit_code_tells_what_to_do(launch: Run, folder: Path, run: Run) -> None:
    code, _, err = launch(says(folder, ""), "--cache")
    assert (code, "step succeeded (execution 1, 1 attempt)" in err) == (0, True)
    code, _, err = launch(says(folder, ""), "--cache")
    assert (code, "outputs of an earlier execution" in err) == (0, True)
    assert (folder / "tries").read_text() == "1"
    assert launch(says(folder, BAD), "--work-dir", "bad")[0] == 1
    code, _, err = launch(says(folder, BUSY), "--work-dir", "busy", "--attempts", "1")
    assert (code, "--resume" in err) == (75, True)
    assert launch({"class": SAYS, "parameters": {"says": None}})[0] == 2
    code, _, err = launch({"class": "nowhere:X"})
    assert (code, "nowhere" in err, "Nothing was launched" in err) == (2, True, True)
    assert "nowhere.yaml: No such file" in run("launch", "nowhere.yaml", code=2).err
    with open("/dev/full", "w") as full, pytest.MonkeyPatch.context() as output:
        output.setattr(sys, "stdout", full)
        loud = {"container": {"image": "x", "command": ["sh", "-c", "echo x; sleep 60"]}}
        code, _, err = launch(loud, "--launcher", "process", "--work-dir", "loud")
    assert (code, "output any more (No space left on device): component step was cancelled" in err) == (130, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_class_is_interrupted_where_it_is_and_can_be_resumed(launch: Run, folder: Path, number: int) -> None:
    path = "tests.unit.launcher.executors:Stopped"
    component = {"class": path, "parameters": {"tries": str(folder / "tries"), "signal": int(number)}}
    code, _, err = launch(component)
    assert (code, "step: cancelled" in err) == (128 + number, True)
    assert launch(component, "--resume")[0] == 0


def test_a_permanent_failure_is_not_resumed_but_may_be_begun_anew_and_a_retryable_one_is_resumed(
    launch: Run, folder: Path
) -> None:
    component = says(folder, BAD, BUSY, "")
    assert launch(component)[0] == 1
    code, _, err = launch(component, "--resume")
    assert (code, "has failed for good" in err) == (1, True)
    assert (folder / "tries").read_text() == "1"
    assert launch(component, "--attempts", "1")[0] == 75
    code, _, err = launch(component, "--resume")
    assert (code, "2 attempts" in err) == (0, True)


CONTAINER = {"container": {"image": "i:1"}}


def test_what_may_still_run_is_not_begun_anew(launch: Run, folder: Path) -> None:
    code, _, err = launch(CONTAINER, "--launcher", "docker")
    assert (code, "`pipeline run --containers process`" in err) == (75, True), "no engine answers"
    with WorkDirectory(folder / ".tfoperator/launches/step") as work:
        work.save(LaunchRecord("step", "f", 1, "abc", name="step-1", state="created"))
    code, _, err = launch(CONTAINER, "--launcher", "docker")
    assert (code, "step-1 may still run" in err) == (2, True)


def test_a_dry_run_shows_the_launch_and_leaves_and_runs_nothing(
    launch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}
    component = {"container": {"image": "i:1"}, "platforms": {"kubernetes": pod}}
    code, out, _ = launch(component, "--dry-run")
    assert (code, "kind: Pod" in out) == (0, True)
    assert "#   spec.containers[main].resources.limits.cpu: config of step" in out
    assert "entrypoint" not in launch(component, "--dry-run", "--launcher", "docker")[1]
    assert "kind: TFJob" in launch(component, "--dry-run", "--launcher", "tfjob")[1]
    assert not (folder / ".tfoperator").exists()
    (folder / "planted.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nclass Do: do = print\n")
    monkeypatch.syspath_prepend(str(folder))
    code, out, _ = launch({"class": "planted:Do"}, "--dry-run")
    assert (code, "class: planted:Do" in out, (folder / "ran").exists()) == (0, True, False)
    assert launch({"class": "planted:Do"})[0] == 0
    assert (folder / "ran").exists()


@pytest.mark.parametrize(
    ("component", "arguments", "words"),
    [
        ({"container": {"image": "i", "args": ["{{ inputs.nope.uri }}"]}}, ["--launcher", "docker"], "no input 'nope'"),
        ({"container": {"image": "i"}, "inputs": ["a"]}, [], "input 'a' is missing"),
        (CONTAINER, ["--launcher", "in-process"], "no launcher accepts"),
        ({"class": SAYS}, ["--launcher", "docker"], "no launcher accepts"),
        ({"container": {"image": "i"}}, ["--input", "a"], "must have the form NAME=VALUE"),
        ({"container": {"image": "i"}, "parameters": ["a"]}, ["--param", "a=1", "--param", "a=2"], "is given twice"),
        ({"nonsense": 1}, [], "nonsense"),
        (
            {"container": {"image": "i"}},
            ["--launcher", "kubernetes", "--kubeconfig", "gone"],
            "no cluster is configured",
        ),
        ({"class": SAYS}, ["--launcher", "slurm"], "the launchers are in-process, docker"),
        ({"class": SAYS}, ["--launcher", SAYS], "is not a launcher"),
    ],
)
def test_bad_input_is_told_before_anything_is_made(
    launch: Run, folder: Path, component: dict[str, Any], arguments: list[str], words: str
) -> None:
    code, _, err = launch(component, *arguments)
    assert (code, words in err) == (2, True), err
    assert not (folder / ".tfoperator").exists()


class Own(BaseComponentLauncher):
    """As the design writes one: two methods, and no more."""

    @classmethod
    def can_launch(cls, executor_spec: Any, platform_spec: Any = None) -> bool:
        return platform_spec is None

    def _run_executor(
        self, execution_id: int, input_dict: Any, output_dict: Any, exec_properties: Mapping[str, Any]
    ) -> None:
        Path("own").write_text(f"{execution_id} {exec_properties['says']}")


def test_a_launcher_of_ones_own_can_be_named(launch: Run, folder: Path) -> None:
    own, component = f"{__name__}:Own", {"container": {"image": "i"}, "parameters": {"says": "x"}}
    assert "launcher: Own\n" in launch(component, "--launcher", own, "--dry-run")[1]
    assert launch(component, "--launcher", own)[0] == 0
    assert (folder / "own").read_text() == "1 x"


def test_what_is_not_installed_is_not_worth_another_try(
    launch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    code, _, err = launch(CONTAINER, "--launcher", "docker")
    assert (code, "pip install 'tfoperator[docker]'" in err) == (2, True), err
    assert launch(CONTAINER, "--launcher", "docker", "--dry-run")[0] == 0, "to show it takes nothing"
    assert not (folder / ".tfoperator").exists()
