"""`run_locally` in a program of its own folder, with functions that take no time instead of TensorFlow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import no_threads_left
from tfoperator.notebook import LocalRunFailed, run_locally
from tfoperator.sdk import JobFailed, TFJobClient


def train(parameters: dict[str, Any]) -> None:
    import json
    import os
    import pathlib
    import time

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print("task", task["type"], task["index"], parameters["word"], os.environ["EXTRA"], os.getcwd(), flush=True)
    # A worker that has not begun when worker 0 ends would never begin.
    pathlib.Path(f"begun-{task['type']}-{task['index']}").touch()
    while len(list(pathlib.Path().glob("begun-*"))) < parameters["replicas"]:
        time.sleep(0.05)


def fail() -> None:
    def inner() -> None:
        raise ValueError("the data is not there")

    inner()


def print_nothing() -> None:
    pass


def wait() -> None:
    import time

    print("waiting", flush=True)
    time.sleep(600)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_function_runs_on_several_processes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with no_threads_left():
        result = run_locally(
            train,
            parameters={"word": "$(HOME)", "replicas": 3},
            num_workers=2,
            num_ps_replicas=1,
            env_vars={"EXTRA": "$$"},
        )
    output = capsys.readouterr().out
    for kind, index in (("worker", 0), ("worker", 1), ("ps", 0)):
        assert f"[{kind}-{index}] task {kind} {index} $(HOME) $$ {folder}\n" in output
    assert (result.job.name, result.job.succeeded, result.run_directory.parent.name) == ("train", True, "runs")
    assert result.log("worker-1") == f"task worker 1 $(HOME) $$ {folder}\n"
    assert "worker-1" in result._repr_html_()
    assert json.loads((result.run_directory / "result.json").read_text())["exitCode"] == 0


def test_a_failure_is_an_exception_with_the_culprits_last_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LocalRunFailed, match="ValueError: the data is not there") as error, no_threads_left():
        run_locally(fail)
    assert "worker-0 failed with exit code 1" in str(error.value)
    assert error.value.result.job.failed_replicas[0].name == "worker-0"
    assert "Traceback" in capsys.readouterr().out


def test_a_second_run_has_logs_of_its_own() -> None:
    first, second = (run_locally(print_nothing).run_directory for _ in range(2))
    assert first != second


def test_time_is_up() -> None:
    with pytest.raises(LocalRunFailed, match="did not end within the time limit") as error, no_threads_left():
        run_locally(wait, timeout=5)
    records = error.value.result.run_directory / "processes"
    assert not list(records.glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_workers": -1}, "can't be negative"),
        ({"num_workers": 0}, "the job would have no replica that trains"),
        ({"num_chief_replicas": 2}, "one chief at most"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(folder: Path, arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run_locally(wait, **arguments)  # type: ignore[arg-type]
    assert not (folder / ".tfoperator").exists()


def test_a_client_needs_no_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "none"))
    with no_threads_left(), TFJobClient.local() as client:
        client.create_job(
            name="pair",
            train_func=train,
            parameters={"word": "x", "replicas": 2},
            num_workers=2,
            env_vars={"EXTRA": ""},
        )
        client.wait_for_job_conditions("pair", wait_timeout=60)
        assert f"task worker 1 x  {folder}" in client.get_job_logs("pair", is_master=False)["pair-worker-1"]
        client.create_job(name="fails", train_func=fail)
        with pytest.raises(JobFailed):
            client.wait_for_job_conditions("fails", wait_timeout=60)
        with pytest.raises(ValueError, match="run_locally"):
            client.create_job(name="more", train_func=train, packages_to_install=["x"])
        client.create_job(name="endless", train_func=wait)
        client.wait_for_job_conditions("endless", expected_conditions={"Running"}, wait_timeout=60)
    client.close()
