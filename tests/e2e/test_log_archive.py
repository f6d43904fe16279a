"""The log archive, end to end: a pod is deleted, and what it has printed is found.

Only a kubelet has logs: with real ones it is the embedded control plane, whose node agent has them. The real API server
shows what a cluster does whose nodes don't answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import Cli, replica, tfjob
from tests.support.eventually import eventually
from tests.support.operated import Operated

TWICE = """
if mkdir been-here 2>/dev/null; then echo first attempt; exit 137; fi
echo second attempt
while :; do sleep 0.1; done
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Cli]:
    """The command line, with a control plane of its own as `eval "$(tfoperator local up)"` would make it known."""
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    up = Cli(tmp_path, **state)
    done = up.run("local", "up")
    try:
        assert done.returncode == 0, done.stderr
        variables = dict(word.split("=", 1) for word in shlex.split(done.stdout.removeprefix("export ")))
        assert set(variables) == {"KUBECONFIG", "TFOPERATOR_ARCHIVE_DIR"}
        yield Cli(tmp_path, **state, **variables)
    finally:
        up.run("local", "down", "--now")


def submit(cli: Cli, manifest: str) -> None:
    (cli.folder / "job.yaml").write_text(manifest)
    done = cli.run("submit", "job.yaml")
    assert done.returncode == 0, done.stderr


def logs_say(cli: Cli, text: str, *arguments: str) -> str:
    """Wait until `tfoperator logs` shows that; returns what it said about it."""

    def shown() -> bool:
        done = cli.run("logs", *arguments)
        assert done.stdout == text, (done.stdout, done.stderr)
        said.append(done.stderr)
        return True

    said: list[str] = []
    eventually(shown, within=30, every=0.2, what=f"logs {arguments}")
    return said[-1]


def test_the_attempt_before_the_pod_was_deleted_and_all_that_a_deleted_job_leaves(local: Cli) -> None:
    submit(local, tfjob("again", Worker=replica("sh", "-c", TWICE, restart="ExitCode")))
    assert logs_say(local, "second attempt\n", "again") == ""
    said = logs_say(local, "first attempt\n", "again", "--previous")
    assert said.startswith("worker-0: from the archive, pod again-worker-0 deleted at 20")
    assert said.endswith(", exit code 137\n")

    # A running pod that is stopped has its say, too.
    assert local.run("suspend", "again").returncode == 0
    said = logs_say(local, "second attempt\n", "again")
    assert "from the archive" in said
    assert logs_say(local, "first attempt\n", "again", "-p") != ""

    assert local.run("delete", "again", "--wait").returncode == 0
    assert "from the archive" in logs_say(local, "second attempt\n", "again")
    done = local.run("logs", "again", "--archive-dir", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the log archive nowhere can't be read: No such file or directory" in done.stderr


@pytest.fixture(scope="module")
def archive_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="module")
def operator_flags(archive_dir: Path) -> tuple[str, ...]:
    return ("--restart-delay-base=100ms", f"--archive-dir={archive_dir}", "--archive-timeout=10s")


@pytest.mark.controlplane
def test_nodes_that_do_not_answer_lose_logs_but_hold_up_no_restart(operated: Operated, archive_dir: Path) -> None:
    job = operated.running("mute", restart_policy="ExitCode", PS=1, Worker=3)
    job.bind("worker-1")
    before = job.pod_uid("worker-1")
    job.play("Failed", "worker-1", exit_code=137)
    job.wait_successor("worker-1", of=before)
    assert job.restarts() == 1
    job.wait_reasons("LogsNotArchived")
    (event,) = [event for event in job.events() if event["reason"] == "LogsNotArchived"]
    assert event["type"] == "Warning"
    assert "The log of pod mute-worker-1 was not archived: tensorflow: " in event["message"]
    assert not [path for path in archive_dir.rglob("*") if path.is_file()]

    # What was never on a node has an empty log; what never ran, the new worker-1, has none.
    job.suspend()
    job.wait("Suspended")
    job.wait_pods()
    assert len(list(archive_dir.glob("*/*/*/pod.json"))) == 3
