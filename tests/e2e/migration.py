"""Common parts of the tests of the migration: jobs that the Go operator runs, and the switch to this operator.

The switch follows docs/migrate.md, step by step. The test plays the kubelet, so no pod really runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hack.controlplane import ControlPlane
from tests.support.cli import Cli
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.go_operator import WEBHOOKS, GoOperator
from tests.support.kubectl import Kubectl
from tests.support.operated import HOLD, JobOnCluster, Operated
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import ServerError
from tfoperator.kube.protocol.resources import PODS

TEAM, OTHERS = "team", "others"
"""Two namespaces with an operator each, so that the way back of one is no matter of the other's tests."""

TODAY = ("plain", "kept", "exits", "in-place", "evaluated", "lower", "ended", "cleaned", "paused", "pending")
"""Jobs that nothing happens to during the switch."""


def shapes() -> Iterator[Json]:
    """The jobs of the namespace TEAM."""
    yield tfjob("plain", Chief=1, PS=1, Worker=2)
    yield tfjob("kept", run_policy={"cleanPodPolicy": "None"}, PS=1, Worker=2)
    yield tfjob("exits", restart_policy="ExitCode", run_policy={"backoffLimit": 6}, PS=1, Worker=2)
    yield tfjob("in-place", restart_policy="OnFailure", run_policy={"backoffLimit": 3}, Worker=2)
    yield tfjob("evaluated", PS=1, Worker=1, Evaluator=1)
    lower = tfjob("lower", restart_policy="", worker=1, ps=1)
    for replica in lower["spec"]["tfReplicaSpecs"].values():
        del replica["replicas"]
    yield lower
    yield tfjob("ended", PS=1, Worker=2)
    yield tfjob("cleaned", run_policy={"cleanPodPolicy": "Running"}, PS=1, Worker=1)
    yield tfjob("paused", Worker=2)
    yield tfjob("pending", Worker=2)
    yield tfjob("fails-retryably", restart_policy="ExitCode", Worker=2)
    yield tfjob("fails-for-good", PS=1, Worker=2)
    yield tfjob("halfway", restart_policy="ExitCode", Worker=2)
    deleted = tfjob("deleted", Worker=2)
    deleted["metadata"]["finalizers"] = [HOLD]
    yield deleted


def replicas_of(job: JobOnCluster) -> list[str]:
    """Return the names of a job's pods without the job's name."""
    specs = job.get()["spec"]["tfReplicaSpecs"]
    return [f"{kind.lower()}-{i}" for kind, spec in specs.items() for i in range(spec.get("replicas", 1))]


def active(job: JobOnCluster) -> int:
    """How many replicas run, as the job's status has it."""
    return sum(status.get("active", 0) for status in (job.status().get("replicaStatuses") or {}).values())


def play_all_running(job: JobOnCluster) -> None:
    """Wait for the pods and services of a job, let the pods run, and wait until its status shows each of them."""
    replicas = replicas_of(job)
    job.wait_pods(*replicas)
    job.wait_services(*replicas)
    job.play("Running", *replicas, leads_to="Running")
    eventually(lambda: active(job) == len(replicas), every=0.05, what=f"{job.name} runs with all replicas")


class Objects(dict[str, tuple[str, str]]):
    """UID and version of a job's pods and services."""

    @classmethod
    def of(cls, job: JobOnCluster) -> Objects:
        objects = {f"pod {name}": pod for name, pod in job.pods().items()}
        objects |= {f"service {name}": service for name, service in job.services().items()}
        return cls((key, (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])) for key, obj in objects.items())


class Migration:
    """A control plane on which this operator followed the Go operator.

    `reports` has the reports of `migrate`, in order.
    """

    def __init__(self, plane: ControlPlane, client: Client, folder: Path, stack: ExitStack) -> None:
        self.plane = plane
        self.folder = folder
        self.kubectl = Kubectl(plane.kubeconfig)
        self.cli = Cli(folder, KUBECONFIG=str(plane.kubeconfig))
        self.team, self.others = Cluster(client, TEAM), Cluster(client, OTHERS)
        self.go_operator = stack.enter_context(GoOperator(plane))
        self._stack = stack
        self._crd = ""
        self.jobs: dict[str, JobOnCluster] = {}
        self.reports: list[Json] = []
        self.reports_as_text = ""
        self.states: dict[str, str] = {}
        self.objects: dict[str, Objects] = {}
        """As the Go operator has left them, by the jobs' names."""

    def run_under_the_go_operator(self) -> None:
        """Start the Go operator with its CRD, and bring each job to where the switch finds it."""
        self.go_operator.apply_crd()
        self.go_operator.start()
        for cluster in (self.team, self.others):
            cluster.create_namespace()
        for manifest in shapes():
            self._submit(self.team, manifest)
        for name in ("back", "back-fails", "back-ends", "back-pauses"):
            policy = "ExitCode" if name == "back-fails" else "Never"
            self._submit(self.others, tfjob(name, restart_policy=policy, Chief=1, PS=1, Worker=1))
        for name, job in self.jobs.items():
            if name == "pending":
                job.wait_pods(*replicas_of(job))
            else:
                play_all_running(job)
        self._lead_them_apart()

    def _submit(self, cluster: Cluster, manifest: Json) -> None:
        job = JobOnCluster(cluster, cluster.submit(manifest))
        self.jobs[job.name] = job

    def _lead_them_apart(self) -> None:
        jobs = self.jobs
        jobs["exits"].fail("worker-1", exit_code=137)
        play_all_running(jobs["exits"])
        jobs["in-place"].play("Running", "worker-1", restarts=1)
        jobs["ended"].play("Succeeded", "worker-0", leads_to="Succeeded")
        jobs["cleaned"].play("Succeeded", "worker-0", leads_to="Succeeded")
        jobs["cleaned"].wait_pods("worker-0")
        jobs["paused"].suspend()
        jobs["paused"].wait("Suspended")
        jobs["paused"].wait_pods()
        # Kept by a finalizer: else its deletion and the next one's creation are a moment.
        self.hold_pod(jobs["halfway"], "worker-1", [HOLD])
        jobs["halfway"].play("Failed", "worker-1", exit_code=137)

        def going() -> bool:
            return "deletionTimestamp" in jobs["halfway"].pods()["worker-1"]["metadata"]

        eventually(going, every=0.05, what="the Go operator deletes the pod that has failed")

    def hold_pod(self, job: JobOnCluster, replica: str, finalizers: list[str] | None) -> None:
        """Give a pod finalizers, or take them all."""
        change: Json = {"metadata": {"finalizers": finalizers}}
        job.cluster.client.patch(PODS, job.cluster.namespace, job.pod_name(replica), change, decode)

    def ask(self, code: int) -> Json:
        """Return the report of `tfoperator migrate` about the whole cluster."""
        report: Json = json.loads(self.cli.run("migrate", "--all-namespaces", "-o", "json", code=code).stdout)
        self.reports.append(report)
        return report

    def deal_with_each_action(self) -> None:
        """Do steps 1 to 3 of the checklist, the actions before the switch, until none is left."""
        around = self.folder / "around"
        around.mkdir()
        self.go_operator.apply_manifests(around)
        self.ask(code=1)
        self.reports_as_text = self.cli.run("migrate", "--all-namespaces", code=1).stdout
        self.kubectl("--namespace=kubeflow", "scale", "deployment/training-operator", "--replicas=0")
        self.go_operator.stop()
        self.take_out_the_webhook()
        eventually(self.keep_pods_of_the_ended_job, every=0.2, what="the API server calls the webhook no more")
        self.ask(code=0)

    def keep_pods_of_the_ended_job(self) -> bool:
        """Return whether the API server admits the change. It reads the webhooks from a cache, which may be behind."""
        try:
            self.jobs["ended"].patch_spec(runPolicy={"cleanPodPolicy": "None"})
        except ServerError:
            return False
        return True

    def take_out_the_webhook(self) -> None:
        """Take the webhook for TFJobs out of the Go operator's configuration, which has other kinds' webhooks, too."""
        kind = ("validatingwebhookconfiguration", WEBHOOKS)
        configuration = json.loads(self.kubectl("get", *kind, "--output=json"))
        number = [webhook["name"].split(".")[1] for webhook in configuration["webhooks"]].index("tfjob")
        change = [{"op": "remove", "path": f"/webhooks/{number}"}]
        self.kubectl("patch", *kind, "--type=json", "--patch", json.dumps(change))

    def meanwhile(self) -> None:
        """Let things happen while there is no operator."""
        self.states, self.objects = self.shown(), self.all_objects()
        self.jobs["fails-retryably"].play("Failed", "worker-1", exit_code=137)
        self.jobs["fails-for-good"].play("Failed", "worker-1", exit_code=1)
        self.jobs["deleted"].delete()
        self.jobs["deleted"].delete_pod("worker-1")

    def all_objects(self) -> dict[str, Objects]:
        """The pods and services of each job by its name."""
        return {name: Objects.of(job) for name, job in self.jobs.items()}

    def shown(self) -> dict[str, str]:
        """The state of each job by its name, as `kubectl get tfjobs -A` shows it."""
        header, *rows = (line.split() for line in self.kubectl("get", "tfjobs", "--all-namespaces").splitlines())
        assert header[:3] == ["NAMESPACE", "NAME", "STATE"]
        return {row[1]: row[2] for row in rows}

    def apply_our_crd(self, *flags: str) -> str:
        """Do step 4 of the checklist, or an upgrade later; return kubectl's output."""
        if not self._crd:
            self._crd = self.cli.run("crd", code=0).stdout
        return self.kubectl("apply", "--server-side", *flags, "--filename=-", stdin=self._crd)

    def start_ours(self, cluster: Cluster) -> Operated:
        """Start this operator for one of the namespaces."""
        flags = (f"--namespace={cluster.namespace}", "--restart-delay-base=100ms")
        process = OperatorProcess(self.plane.kubeconfig, self.folder, f"operator-{cluster.namespace}", *flags)
        return Operated(cluster, self._stack.enter_context(process).wait_ready())


@contextmanager
def migration(plane: ControlPlane, folder: Path) -> Iterator[Migration]:
    """The Go operator, stopped, with the jobs that it has left; our CRD is over its own, and no operator runs."""
    with ExitStack() as stack:
        client = stack.enter_context(Client(load_config(str(plane.kubeconfig))))
        migrated = Migration(plane, client, folder, stack)
        migrated.run_under_the_go_operator()
        migrated.deal_with_each_action()
        migrated.meanwhile()
        migrated.apply_our_crd("--force-conflicts")
        yield migrated
