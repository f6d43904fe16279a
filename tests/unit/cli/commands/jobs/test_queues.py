"""The output of commands about jobs that are in a queue of Kueue."""

import json
import shlex
import signal
import threading
from pathlib import Path

from tests.support.cli import Cli
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.kueue_objects import condition, no_quota
from tests.unit.cli.commands.jobs.conftest import Queues
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.cli.terminal.complaints import explained
from tfoperator.cli.waiting import QueueLooks
from tfoperator.sdk import JobQueue, JobQueued, QueueState

QUOTA = condition("QuotaReserved", message="Quota reserved in ClusterQueue team")
ADMITTED = condition("Admitted", message="The workload is admitted")


def test_describe_and_wait_say_in_which_queue_a_job_waits_and_why(queues: Queues) -> None:
    made = queues.queue()
    queues.admits(made, no_quota())
    text = queues.tell("describe", "mnist", code=0).out
    assert "Queue:        research: Waiting: insufficient unused quota for cpu in flavor default, 2 more needed" in text
    queue = json.loads(queues.tell("describe", "mnist", "-o", "json", code=0).out)["queue"]
    assert (queue["name"], queue["state"], queue["workload"]) == ("research", "Waiting", "tfjob-mnist")
    queues.admits(made, no_quota("LocalQueue nosuch doesn't exist"))
    result = queues.tell("wait", "mnist", "--timeout", "0.1s", code=124)
    assert "queue research: Waiting: LocalQueue nosuch doesn't exist" in result.err


def test_describe_knows_multikueue_from_an_operator_that_does_not_run(queues: Queues) -> None:
    queues.admits(queues.submit_far("far"), QUOTA, ADMITTED, clusterName="worker-1")
    output = queues.tell("describe", "far", code=0).out
    assert "Admitted, runs on cluster worker-1" in output
    assert "none: MultiKueue manages the job" in output
    queues.submit("near", Worker=1)
    output = queues.tell("describe", "near", code=0).out
    assert "none: perhaps the operator is not running" in output
    assert "Queue:" not in output


def test_get_has_a_column_for_queues_if_a_job_is_in_one(queues: Queues) -> None:
    queues.submit("free", Worker=1)
    assert "QUEUE" not in queues.tell("get", code=0).out
    queues.admits(queues.queue("waits"), no_quota())
    queues.admits(queues.queue("runs"), QUOTA, ADMITTED)
    rows = {line.split()[0]: line.split() for line in queues.tell("get", code=0).out.splitlines()}
    assert rows["NAME"][-1] == "QUEUE"
    assert [rows[name][-1] for name in ("free", "waits", "runs")] == ["-", "Waiting", "Admitted"]
    wide = queues.tell("get", "waits", "-o", "wide", code=0).out
    assert "research: Waiting" in wide
    assert "insufficient unused quota for cpu in flavor default, 2 more needed" in wide
    assert queues.tell("get", "waits", "-o", "name", code=0).out == "tfjob.kubeflow.org/waits\n"


def test_watching_shows_each_change_and_the_column_from_the_first_job_on_that_is_in_a_queue(
    queues: Queues, tmp_path: Path
) -> None:
    queues.submit("free", Worker=1)
    with Cli(tmp_path, KUBECONFIG=str(queues.kubeconfig)).start("get", "-w") as command:
        command.until("Pending")
        queues.becomes("Running", "free")
        command.until("Running")
        assert "QUEUE" not in command.output
        made = queues.queue("waits")
        command.until("research: Unknown")
        queues.admits(made, no_quota())
        queues.client.patch(TFJOBS, queues.namespace, "waits", {"metadata": {"labels": {"seen": "yes"}}}, decode)
        command.until("research: Waiting")
        queues.sdk.delete_job("free")
        command.until("Deleted")
        command.until(" -\n")
        assert command.end(signal.SIGINT) == 130
    assert command.output.count("NAME ") == 2, "the second header has the column"
    assert "Traceback" not in command.output


def test_what_others_have_written_does_no_harm_to_a_terminal(queues: Queues) -> None:
    queues.admits(queues.queue(), no_quota("no\x1b[2J room\nmnist is fine\x07"))
    for command in (("describe", "mnist"), ("get", "-o", "wide"), ("wait", "mnist", "--timeout", "0.1s")):
        result = queues.tell(*command)
        assert not set("\x1b\x07") & set(result.out + result.err)
        assert "\nmnist is fine" not in result.out + result.err
    assert "room" in queues.tell("describe", "mnist").out


def test_suspending_a_job_in_a_queue_is_refused_and_kueues_way_is_named_and_the_way_back_where_there_is_one(
    queues: Queues,
) -> None:
    queues.admits(queues.queue(), QUOTA, ADMITTED)
    result = queues.tell("suspend", "mnist", code=1)
    assert result.out == ""
    assert "is in queue research: Kueue decides when the job runs" in result.err
    command = shlex.split(result.err.partition("Suspend the job through Kueue: ")[2])
    patch = f"kubectl patch workloads.kueue.x-k8s.io tfjob-mnist -n {queues.namespace} --type merge -p"
    assert command == [*patch.split(), '{"spec":{"active":false}}']
    queues.admits(queues.queue("waits"), no_quota())
    assert "Kueue will start the job when the queue has enough quota" in queues.tell("resume", "waits", code=1).err
    queues.admits(queues.queue("stopped"), no_quota(), spec={"active": False})
    resume = "Resume the job through Kueue: kubectl patch workloads.kueue.x-k8s.io tfjob-stopped"
    assert resume in queues.tell("resume", "stopped", code=1).err
    unread = JobQueued(queues.sdk.get_job("waits"), JobQueue("research", QueueState.UNKNOWN), active=False)
    explanation = explained(unread)
    assert "kubectl get workloads.kueue.x-k8s.io" in explanation.hint


def test_whoever_waits_hears_of_the_queue_as_it_changes(queues: Queues) -> None:
    heard: list[JobQueue | None] = []
    lock = threading.Lock()

    def show(_: TFJob, queue: JobQueue | None) -> None:
        with lock:
            heard.append(queue)

    def now(state: QueueState) -> bool:
        with lock:
            return heard[-1] is not None and heard[-1].state is state

    made = queues.queue()
    with QueueLooks(queues.client, show, seconds=0.05) as watch:
        watch.saw_job(queues.sdk.get_job("mnist"))
        eventually(lambda: now(QueueState.UNKNOWN), what="it is known that there is no Workload")
        queues.admits(made, no_quota())
        eventually(lambda: now(QueueState.WAITING), what="it waits")
        queues.admits(made, QUOTA, ADMITTED)
        eventually(lambda: now(QueueState.ADMITTED), what="it is admitted")


def test_a_job_without_a_queue_starts_no_thread(queues: Queues) -> None:
    queues.submit("free", Worker=1)
    before = threading.active_count()
    with QueueLooks(queues.client, lambda *_: None) as watch:
        watch.saw_job(queues.sdk.get_job("free"))
        assert threading.active_count() == before
