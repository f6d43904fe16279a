"""The log archive, end to end: a container ends or its pod is deleted, and what it has printed is found.

Only a kubelet has logs. On the embedded control plane this is its node agent, with real processes. The real API server
asks a node that the test plays, and a node that doesn't answer.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from hack.s3_server import BUCKET
from tests.support.cli import Cli, local_cli, replica, tfjob
from tests.support.cluster import Cluster, decode
from tests.support.container_log import ContainerLog
from tests.support.eventually import eventually, eventually_holds
from tests.support.fake_kubelet import FakeKubelet
from tests.support.operated import JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess
from tests.support.services import s3, s3_variables
from tfoperator.api.v1.types import TFJOBS
from tfoperator.local.node.node_api import NODES
from tfoperator.logs.archive.reader import archived_pods
from tfoperator.ui.jobs.texts import archived_log, archived_runs

__all__ = ["s3", "s3_variables"]

TWICE = """
if mkdir been-here 2>/dev/null; then echo first attempt; exit 137; fi
echo second attempt
while :; do sleep 0.1; done
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Cli]:
    with local_cli(tmp_path) as cli:
        yield cli


def submit(cli: Cli, manifest: str) -> None:
    cli.run("submit", cli.write(manifest), code=0)


def logs_say(cli: Cli, text: str, *arguments: str, source: str = "") -> str:
    """Wait until `tfoperator logs` shows the text, and announces this source; return all of its output.

    A pod that is being deleted answers itself until it has gone, and then the archive does.
    """

    def shown() -> None:
        done = cli.run("logs", *arguments)
        assert done.stdout == text, (done.stdout, done.stderr)
        assert source in done.stderr, done.stderr
        outputs.append(done.stderr)

    outputs: list[str] = []
    eventually_holds(shown, every=0.2, what=f"logs {arguments}")
    return outputs[-1]


def test_the_attempt_before_the_pod_was_deleted_and_all_that_a_deleted_job_leaves(local: Cli) -> None:
    submit(local, tfjob("again", Worker=replica("sh", "-c", TWICE, restart="ExitCode")))
    assert logs_say(local, "second attempt\n", "again") == ""
    output = logs_say(local, "first attempt\n", "again", "--previous")
    assert output.startswith("worker-0: from the archive, pod again-worker-0, kept at 20")
    assert output.endswith(", exit code 137\n")

    # A running pod that is stopped has its say, too.
    assert local.run("suspend", "again").returncode == 0
    logs_say(local, "second attempt\n", "again", source="from the archive")
    assert logs_say(local, "first attempt\n", "again", "-p") != ""

    assert local.run("delete", "again", "--wait").returncode == 0
    logs_say(local, "second attempt\n", "again", source="from the archive")
    done = local.run("logs", "again", "--archive-dir", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the log archive nowhere can't be read: No such file or directory" in done.stderr


@pytest.fixture(scope="module")
def archive_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archive")


@pytest.fixture(scope="module")
def operator_flags(archive_dir: Path) -> tuple[str, ...]:
    return ("--restart-delay-base=100ms", f"--archive-dir={archive_dir}", "--archive-timeout=60s")


@pytest.mark.controlplane
def test_nodes_that_do_not_answer_lose_logs_but_hold_up_no_restart(operated: Operated, archive_dir: Path) -> None:
    job = operated.running("mute", restart_policy="ExitCode", PS=1, Worker=3)
    job.bind("worker-1")
    job.fail("worker-1", exit_code=137)
    assert job.restarts() == 1
    job.wait_reasons("LogsNotArchived")
    (event,) = [event for event in job.events() if event["reason"] == "LogsNotArchived"]
    assert event["type"] == "Warning"
    assert "The log of pod mute-worker-1 was not archived: tensorflow: " in event["message"]
    assert not [path for path in archive_dir.rglob("*") if path.is_file()]

    # A pod that was never on a node has an empty log; the new worker-1, which never ran, has none.
    job.suspend()
    job.wait("Suspended")
    job.wait_pods()
    assert len(list(archive_dir.glob("*/*/*/pod.json"))) == 3


class Node:
    """A node whose kubelet has the logs that a test gives it."""

    name = "answers"

    def __init__(self, plane: ControlPlane, operated: Operated, kubelet: FakeKubelet, archive: Path) -> None:
        self.cluster = operated.cluster
        self.kubelet = kubelet
        self.archive = archive
        self._cli = Cli(archive, KUBECONFIG=str(plane.kubeconfig), TFOPERATOR_ARCHIVE_DIR=str(archive))

    def takes(self, job: JobOnCluster, *replicas: str) -> None:
        """The replicas run here."""
        job.wait_pods(*replicas)
        job.bind(*replicas, node=self.name)
        job.play("Running", *replicas)

    def log(self, job: JobOnCluster, replica: str, *lines: str, container: str = "tensorflow") -> ContainerLog:
        log = self.kubelet.log(self.cluster.namespace, job.pod_name(replica), container)
        log.write("".join(f"{line}\n" for line in lines))
        return log

    def wait_kept(self, job: JobOnCluster, replica: str, text: str) -> None:
        """Wait until the archive has that as a log of the replica."""
        pattern = f"*/{job.name}-*/{job.pod_name(replica)}.*/tensorflow.log"

        def kept() -> None:
            logs = []
            for path in self.archive.glob(pattern):
                with suppress(FileNotFoundError):  # a folder that is written anew is away for a moment
                    logs.append(path.read_text())
            assert text in logs, logs

        eventually_holds(kept, every=0.05, what=f"the log of {replica} is kept")

    def says(self, job: JobOnCluster, text: str, *arguments: str) -> None:
        """Wait until `tfoperator logs` shows the text from the archive."""
        where = ("--namespace", self.cluster.namespace)
        logs_say(self._cli, text, job.name, *where, *arguments, source="from the archive")


@pytest.fixture(scope="module")
def node(plane: ControlPlane, operated: Operated, archive_dir: Path) -> Iterator[Node]:
    with FakeKubelet() as kubelet:
        client = operated.cluster.client
        client.create(NODES, "", {"metadata": {"name": Node.name}}, decode)
        client.patch(NODES, "", Node.name, {"status": kubelet.node_status}, decode, subresource="status")
        yield Node(plane, operated, kubelet, archive_dir)
        client.delete(NODES, "", Node.name)


@pytest.mark.controlplane
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_finished_job_that_somebody_deletes_leaves_its_logs(node: Node, operated: Operated, propagation: str) -> None:
    job = operated.job(f"over-{propagation.lower()}", Worker=2)
    logs = [node.log(job, f"worker-{number}", f"I was {number}") for number in range(2)]
    node.takes(job, "worker-0", "worker-1")
    job.play("Succeeded", "worker-1", "worker-0", leads_to="Succeeded")
    for number in range(2):
        node.wait_kept(job, f"worker-{number}", f"I was {number}\n")
    operated.cluster.client.delete(TFJOBS, operated.cluster.namespace, job.name, propagation_policy=propagation)
    eventually(lambda: job.is_gone() and not job.pods(), within=60, what="the job and its pods are gone")
    node.says(job, "[worker-0] I was 0\n[worker-1] I was 1\n", "--all-replicas")
    assert [len(log.asked) for log in logs] == [1, 1]


@pytest.mark.controlplane
def test_a_pod_that_is_evicted_while_it_runs_leaves_what_it_says_until_its_end(node: Node, operated: Operated) -> None:
    job = operated.job("evicted", restart_policy="OnFailure", Worker=2)
    log = node.log(job, "worker-1", "step 1")
    node.takes(job, "worker-0", "worker-1")
    job.wait("Running")
    before = job.pod_uid("worker-1")
    job.delete_pod("worker-1")  # it has 30 s, and is still there: the test is its kubelet
    node.wait_kept(job, "worker-1", "step 1\n")
    log.write("saved and out\n")
    job.play("Failed", "worker-1", exit_code=143)
    node.wait_kept(job, "worker-1", "step 1\nsaved and out\n")
    operated.cluster.end_pod(job.pod_name("worker-1"))
    job.wait_successor("worker-1", of=before)
    assert len(log.asked) == 2
    job.delete()
    eventually(lambda: job.is_gone(), what="the job is gone")
    node.says(job, "step 1\nsaved and out\n", "--replica", "worker-1")


@pytest.mark.controlplane
def test_a_new_leader_takes_what_ended_meanwhile_and_nothing_twice(node: Node, operated: Operated) -> None:
    job = operated.job("handed", Worker=3)
    logs = [node.log(job, f"worker-{number}", f"I was {number}") for number in range(3)]
    node.takes(job, "worker-0", "worker-1", "worker-2")
    job.play("Succeeded", "worker-1")
    node.wait_kept(job, "worker-1", "I was 1\n")
    operated.restart_operator(lambda: job.play("Succeeded", "worker-2"))
    node.wait_kept(job, "worker-2", "I was 2\n")
    operated.settle()
    assert [len(log.asked) for log in logs] == [0, 1, 1]


@pytest.mark.controlplane
@pytest.mark.full
def test_in_object_storage_a_log_outlives_its_pod_and_its_node(
    plane: ControlPlane,
    cluster: Cluster,
    start_operator: Callable[..., OperatorProcess],
    s3: dict[str, str],
    tmp_path: Path,
) -> None:
    url = f"s3://{BUCKET}/archive"
    operated = Operated(cluster, start_operator(f"--archive-dir={url}"))
    with FakeKubelet() as kubelet:
        cluster.client.create(NODES, "", {"metadata": {"name": "leaves"}}, decode)
        cluster.client.patch(NODES, "", "leaves", {"status": kubelet.node_status}, decode, subresource="status")
        node = Node(plane, operated, kubelet, tmp_path)
        node.name = "leaves"
        job = operated.job("far", Worker=1)
        log = node.log(job, "worker-0", "Traceback (most recent call last):", "ValueError: no data")
        node.takes(job, "worker-0")
        job.play("Failed", "worker-0", exit_code=1, leads_to="Failed")
        eventually(lambda: archived_pods(url, cluster.namespace, job.name), what="the log is kept")
    cluster.client.delete(NODES, "", node.name)
    job.delete_pod("worker-0")
    eventually(lambda: not job.pods(), what="the pod is gone")
    cli = Cli(tmp_path, **s3, KUBECONFIG=str(plane.kubeconfig), TFOPERATOR_ARCHIVE_DIR=url)
    report = cli.run("report", job.name, "--namespace", cluster.namespace, code=0).stdout
    assert f"{url}/{cluster.namespace}/far-" in report
    assert "ValueError: no data" in report
    [kept] = archived_runs(url, cluster.namespace, job.name, job.uid)  # as the page lists them
    wanted = {"pod": kept["podUid"], "log": kept["log"], "uid": job.uid}
    assert archived_log(url, cluster.namespace, job.name, wanted, 1) == {"text": "ValueError: no data\n"}
    job.delete()
    eventually(job.is_gone, what="the job is gone")
    logs_say(cli, "ValueError: no data\n", job.name, "-n", cluster.namespace, "--tail", "1", source="from the archive")
    done = cli.run("logs", job.name, "-n", cluster.namespace, "--archive-dir", "s3://none/x")
    assert (done.returncode, done.stdout, len(log.asked)) == (1, "", 1)
    assert "the log archive s3://none/x can't be read: s3://none/x: this bucket does not exist" in done.stderr
