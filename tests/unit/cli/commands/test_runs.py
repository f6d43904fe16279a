"""Runs that have ended, seen with the commands that see a cluster's jobs."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.cli import replica, tfjob
from tests.unit.cli.conftest import Run
from tfoperator.cli import recorded
from tfoperator.cli.run_directory import logging_to
from tfoperator.cli.terminal.errors import CliError
from tfoperator.local.run import kept
from tfoperator.local.run.kept import KeptRun, read_run

BEGAN = 4_000_000_000
"""Later than any run of a test, in seconds since 1970."""

TRAIN = """
import sys
from tfoperator.progress import report, flush
for step in range(1, 4):
    report(step=step, total_steps=4, loss=float(sys.argv[2]) / step)
    flush()
print("trained", sys.argv[2], flush=True)
sys.exit(int(sys.argv[3]))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of a program, the second of which failed, and one of two jobs, likewise."""
    from tfoperator.cli.__main__ import main

    folder = tmp_path_factory.mktemp("ended")
    before = os.getcwd()
    os.chdir(folder)
    try:
        Path("train.py").write_text(TRAIN)
        jobs = {"one": "true", "two": "false"}
        Path("two.yaml").write_text("\n---\n".join(tfjob(name, Worker=replica(does)) for name, does in jobs.items()))
        assert main(["run", "train.py", "--", "--rate", "2", "0"]) == 0
        assert main(["run", "train.py", "--name", "other", "--", "--rate", "8", "3"]) == 1
        assert main(["run", "two.yaml"]) == 1
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(ended: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shutil.copytree(ended, tmp_path / "copy", symlinks=True))
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    return Path(".tfoperator", "runs")


def named(folder: Path, job: str) -> str:
    (directory,) = folder.glob(f"2*-{job}")
    return directory.name


def test_all_runs_and_two_of_them_side_by_side(folder: Path, run: Run) -> None:
    lines = [line.split() for line in run("runs", code=0).out.splitlines()]
    ends = {"one": "Failed", "other": "Failed", "train": "Succeeded"}
    assert [line[:2] for line in lines[1:]] == [[named(folder, job), end] for job, end in ends.items()]
    assert lines[2][4:] == ["75%", "loss", "2.667", "rate=8", "args=3"]
    assert "2 older runs" in run("runs", "--limit", "1", code=0).err
    assert [load["exitCode"] for load in json.loads(run("runs", "-o", "json", code=0).out)] == [1, 1, 0]
    both = run("runs", "compare", named(folder, "train"), named(folder, "other"), code=0).out
    assert "rate   2 " in both
    by_step = both[both.index("loss by step") :].splitlines()
    assert by_step[-1].split()[1:] == ["0.6667", "2.667"]


def test_commands_on_an_ended_run_need_no_cluster(folder: Path, run: Run) -> None:
    failed = named(folder, "other")
    assert run("get", failed, code=0).out.splitlines()[1].split()[:2] == ["other", "Failed"]
    assert run("logs", failed, code=0).out == "trained 8\n"
    assert run("logs", f"{folder}/{failed}", "-f", "-a", code=0).out == "[worker-0] trained 8\n"
    assert "worker-0 failed with exit code 3" in run("report", failed, code=0).out
    assert "TFJobFailed" in run("describe", failed, code=0).out
    assert "ExitedWithCode" in run("events", failed, code=0).out
    for words in ([failed, "-w"], [failed, "latest/two"], [failed, "latest/two", "latest/three", "mnist"]):
        shown = [line.split()[0] for line in run("get", *words, code=len(words) // 4).out.splitlines()]
        assert shown == ["NAME", "other", "two"][: 3 - ("-w" in words)]
    assert "ExitedWithCode" in run("events", failed, "-w", code=0).out
    assert "Failed" in run("describe", "latest/two", code=0).out
    (log,) = (folder / failed).glob("logs/*/*/tensorflow/0.log")
    log.unlink()
    log.symlink_to("/etc/hostname")
    assert run("logs", failed, code=1).out == "", "a link is not followed"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "./no/run"], "this run does not exist"),
        (["runs", "compare", "latest", ".."], "this run does not exist"),
        (["describe", "latest"], "this run has several jobs\nName one of the jobs: latest/two, latest/one\n"),
        (["get", "latest/q"], "latest: this run has no job named q\nIts jobs: latest/two, latest/one\n"),
        (["logs", "latest/one", "-r", "worker-5"], "To see what happened to them: tfoperator describe latest/one\n"),
        (["logs", "latest/one", "-c", "bla"], "worker-0 has no container bla; it has tensorflow\n"),
        (
            ["stacks", "latest/one"],
            "so this command can't read its stacks\nWhile a run continues: tfoperator stacks JOB --kubeconfig ",
        ),
        (["logs", "mnist"], "/nowhere"),
        (["logs", "latest", "-n", "default"], "/nowhere"),
    ],
)
def test_what_can_not_be_had_of_a_run_and_what_is_none(folder: Path, run: Run, arguments: list[str], says: str) -> None:
    del folder
    assert says in run(*arguments).err


def test_jobs_of_one_name_in_two_namespaces_are_named_by_their_namespaces(folder: Path) -> None:
    run = read_run(folder / named(folder, "train"))
    jobs = [{"name": "mnist", "namespace": place} for place in ("a", "b")] + [{"name": "other", "namespace": "b"}]
    opened: Any = SimpleNamespace(jobs=jobs)
    for job, found in (("a.mnist", ("mnist", "a")), ("b.mnist", ("mnist", "b")), ("other", ("other", "b"))):
        assert recorded._job_of(f"latest/{job}", run, job, opened) == found
    for word, job, problem in (("latest", "", "several jobs"), ("latest/mnist", "mnist", "several jobs named mnist")):
        with pytest.raises(CliError, match=f"latest.*: this run has {problem}") as error:
            recorded._job_of(word, run, job, opened)
        assert "latest/a.mnist, latest/b.mnist, latest/other" in error.value.hint


def test_runs_that_are_not_whole(folder: Path, run: Run) -> None:
    no_name = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "a", "name": "..", "uid": "u"}}
    kinds = [{"kind": "Secret", "apiVersion": "v1"}, no_name]
    deep = '{"objects": ' + "[" * 100_000
    for spoil in (
        "x",
        '{"jobs": 5}',
        '{"objects": [{"kin',
        deep,
        *(json.dumps({"objects": [obj], "curves": {}}) for obj in kinds),
    ):
        (folder / named(folder, "one") / "records.json").write_text(spoil)
        assert "can't be read" in run("get", named(folder, "one"), code=1).err
    (folder / named(folder, "one") / "records.json").write_text('{"objects": []}')
    assert "this run did not create any job" in run("get", named(folder, "one"), code=2).err
    (folder / named(folder, "train") / "records.json").unlink()
    assert "this run has no records" in run("logs", named(folder, "train"), code=1).err
    going = folder / named(folder, "other")
    (going / "result.json").write_text("{}")
    assert read_run(going).state == "Unreadable"
    assert f"its result can't be read\nIts logs: {going}" in run("get", going.name, code=1).err
    (going / "result.json").unlink()
    assert str(going) in [load["runDirectory"] for load in json.loads(run("runs", "-o", "json", code=0).out)]
    (going / "records.json").unlink()
    shutil.rmtree(going / "logs")
    assert run("report", going.name, code=1).err.endswith(f"this run has no records\nIts files are in {going}\n")


def as_it_ran(going: Path) -> None:
    """Make the records of a run what they are while it goes on."""
    records = json.loads((going / "records.json").read_text())
    for obj in records["objects"]:
        if obj["kind"] == "TFJob":
            obj["status"]["conditions"] = [
                condition for condition in obj["status"]["conditions"] if condition["type"] != "Failed"
            ]
            del obj["status"]["completionTime"]
            running = next(condition for condition in obj["status"]["conditions"] if condition["type"] == "Running")
            running["status"] = "True"
    (going / "records.json").write_text(json.dumps(records))
    (going / "result.json").unlink()


def test_a_run_that_goes_on_and_one_that_has_died(folder: Path, run: Run) -> None:
    going = folder / named(folder, "other")
    as_it_ran(going)
    for sign in (going / "tfoperator.log", going / "records.json"):
        os.utime(sign, (BEGAN + 3600, BEGAN + 3600))
    with logging_to(going / "tfoperator.log"):
        assert read_run(going).state == "Running"
        assert run("get", going.name, code=0).out.splitlines()[1].split()[:2] == ["other", "Running"]
        assert "is not Succeeded after" in run("wait", going.name, "--timeout", "1s", code=124).err
        assert run("logs", going.name, code=0).out == "trained 8\n"
        assert "is running" in run("report", going.name, code=0).out
    os.utime(going / "tfoperator.log", (BEGAN + 3600, BEGAN + 3600))
    died = read_run(going)
    assert (died.state, died.ended) == ("Died", datetime.fromtimestamp(BEGAN + 3600, UTC))
    assert run("get", going.name, code=0).out.splitlines()[1].split()[:3] == ["other", "Died", "0/1"]
    assert f"To see why: tfoperator report {going.name}\n" in run("wait", going.name, code=1).err
    assert "RunDied" in run("wait", going.name, "--for", "Failed", "-o", "json", code=0).out
    assert f"{datetime.fromtimestamp(BEGAN + 3600, UTC):%Y-%m-%d %H:%M:%S} UTC" in run("describe", going.name).out
    assert f"{going}/logs" in run("report", going.name, code=0).out, "and no command that asks a cluster"
    assert "are never deleted, so this wait would not end" in run("wait", going.name, "--for", "deleted", code=2).err


def test_a_run_whose_end_is_written_between_two_looks_has_not_died(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = folder / named(folder, "other")
    result, looks = (ended / "result.json").read_text(), 0
    (ended / "result.json").unlink()

    def ends(path: Path) -> bool:
        nonlocal looks
        looks += 1
        (path.parent / "result.json").write_text(result)
        return False

    read = kept._read_result

    def reads(directory: Path) -> KeptRun | None:
        nonlocal looks
        kept_run = read(directory)
        if looks == 1:
            looks += 1
            (directory / "result.json").unlink()
            kept_run = read(directory)
            (directory / "result.json").write_text(result)
        return kept_run

    monkeypatch.setattr(kept, "is_locked", ends)
    monkeypatch.setattr(kept, "_read_result", reads)
    assert read_run(ended).state == "Failed"


def test_only_the_runs_that_are_shown_are_read(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def reads(directory: Path) -> KeptRun:
        read.append(directory)
        return read_run(directory)

    for number in range(1000):
        directory = folder / f"20200101-000000-{number}"
        directory.mkdir()
        (directory / "tfoperator.log").touch()
    monkeypatch.setattr(recorded, "read_run", reads)
    assert "998 older runs; to list them: --limit 1003" in run("runs", "--limit", "5", code=0).err
    assert len(read) == 5


@pytest.mark.parametrize("command", [["runs"], ["get", "latest"], ["report", "latest"], ["ui", "latest"]])
def test_runs_of_another_user_are_refused(
    folder: Path, run: Run, give_away: Callable[[Path], None], command: list[str]
) -> None:
    give_away(folder)
    assert "another user can replace the files in it" in run(*command, code=2).err
