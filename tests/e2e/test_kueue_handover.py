"""Kueue's own framework and `--kueue` on at once, and the documented steps from one to the other."""

import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.conftest import OPERATOR_USER
from tests.e2e.queues import OFF, ON, PATIENCE, Queues, queues_of
from tests.support.audit import AuditTrail
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster
from tests.support.operator_process import OperatorProcess
from tfoperator.api.kueue.queues import ADOPTED, POD_SETS_ANNOTATION
from tfoperator.sdk import QueueState

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(400)]

PAGES = ("operate/kueue-handover.md", "kueue.md")
"""The pages with the commands."""


def follow(queues: Queues, step: str, job: JobOnCluster) -> None:
    """Give the one command of the pages that begins so, for this job."""
    docs = Path(__file__).resolve().parents[2] / "docs"
    lines = [line for page in PAGES for line in (docs / page).read_text().splitlines()]
    (line,) = [line for line in lines if line.startswith(f"kubectl {step}")]
    names = {"team": queues.namespace, "mnist": job.name, "tfjob-mnist-1a2b3": queues.workload(job)["metadata"]["name"]}
    queues.kubectl(*(names.get(word, word) for word in shlex.split(line, comments=True)[1:]))


def identities(queues: Queues, *jobs: JobOnCluster) -> list[set[str]]:
    return [{obj["metadata"]["uid"] for obj in (*queues.workloads(job), *job.pods().values())} for job in jobs]


def written(trail: AuditTrail, resource: str, *verbs: str) -> set[str]:
    requests = [(entry["verb"], entry.get("objectRef") or {}) for entry in trail.entries()]
    return {str(ref.get("name")) for verb, ref in requests if verb in verbs and ref.get("resource") == resource}


def wait_compared(queues: Queues, job: JobOnCluster) -> None:
    """Wait until the operator has compared the job's Workload with the job, and found that it asks for the same."""

    def is_marked() -> bool:
        return str(queues.workload(job)["metadata"]["annotations"][POD_SETS_ANNOTATION]).startswith(f"{ADOPTED}-")

    eventually(is_marked, within=PATIENCE, every=0.1, what=f"the Workload of {job.name} is compared")


def running_and_waiting(queues: Queues, queue: str) -> list[JobOnCluster]:
    """Two jobs of two workers; the queue has room for the first. Each has the Workload that Kueue makes for it."""
    runs = queues.submit("runs", queue, Worker=2)
    queues.wait_running(runs, "worker-0", "worker-1")
    waits = queues.submit("waits", queue, Worker=2)
    queues.wait_held(waits)
    for job in (runs, waits):
        queues.workload(job)
    return [runs, waits]


def test_both_are_on_and_the_operator_says_so_and_keeps_out(tmp_path: Path) -> None:
    with queues_of(tmp_path, "both", waitForPodsReady={"timeout": "600s"}) as queues:
        trail = AuditTrail(queues.plane.audit_log, OPERATOR_USER)
        runs, waits = running_and_waiting(queues, queues.queue(2))
        assert "Kueue's own integration kubeflow.org/tfjob manages Workload" in queues.operator.tail(100)
        runs.play("Succeeded", "worker-0", leads_to="Succeeded")
        queues.wait_running(waits, "worker-0", "worker-1")
        assert written(trail, "workloads", "create", "patch", "delete") == set()
        assert [len(queues.workloads(job)) for job in (runs, waits)] == [1, 1]

        queues.kueue.restart(OFF)
        half = queues.submit("half-ready", queues.queue(2), Worker=2)
        half.wait_pods("worker-0", "worker-1", within=PATIENCE)
        half.play("Running", "worker-0", leads_to="Running")
        before = identities(queues, half)
        queues.kueue.restart(ON)

        kueues = "All pods reached readiness"
        eventually(lambda: kueues in str(queues.workload(half)["status"]), within=PATIENCE, what="its meaning of ready")
        trail = AuditTrail(queues.plane.audit_log, OPERATOR_USER)
        changed = half.patch_spec(runPolicy={"backoffLimit": 7})["metadata"]["generation"]
        eventually(lambda: half.status().get("observedGeneration") == changed, within=PATIENCE, what="a sync after it")
        assert written(trail, "workloads", "patch") == set(), "the two overwrite each other"
        assert identities(queues, half) == before


def test_the_documented_steps_keep_jobs_running_and_their_places_and_no_quota_is_overdrawn(tmp_path: Path) -> None:
    with ExitStack() as stack:
        queues = stack.enter_context(queues_of(tmp_path, "theirs"))
        trail = AuditTrail(queues.plane.audit_log, OPERATOR_USER)

        def install(*options: str) -> None:
            queues.operator.stop()
            operator = OperatorProcess(queues.plane.kubeconfig_for(OPERATOR_USER), tmp_path, f"with{options}", *options)
            queues.operator = stack.enter_context(operator).wait_ready()

        queue = queues.queue(2, flavor={"nodeLabels": {"disk": "ssd"}})
        runs, waits = jobs = running_and_waiting(queues, queue)
        before = identities(queues, *jobs)
        install("--kueue")
        queues.kueue.restart(OFF)
        for job in jobs:
            follow(queues, "annotate workloads.kueue.x-k8s.io -n team tfjob", job)
        follow(queues, "patch tfjobs", waits)
        queues.ours = True
        queues.wait_held(waits)
        assert identities(queues, *jobs) == before
        for job in jobs:
            wait_compared(queues, job)
        follow(queues, "patch workloads.kueue.x-k8s.io", runs)  # to stop it
        queues.wait_held(runs)
        queues.wait_running(waits, "worker-0", "worker-1")
        last = queues.submit("last", queue, Worker=2)
        queues.wait_held(last)
        queues.workload(last)
        before = identities(queues, waits, last)
        queues.operator.stop()
        follow(queues, "annotate workloads.kueue.x-k8s.io -n team --all", last)
        queues.kueue.restart(ON)
        follow(queues, "wait tfjobs", last)
        install("--kueue=false")
        queues.ours = False
        queues.wait_held(last)
        assert identities(queues, waits, last) == before
        assert "last-worker-0" not in written(trail, "pods", "create"), "it began without quota"
        waits.play("Succeeded", "worker-0", leads_to="Succeeded")
        queues.wait_running(last, "worker-0", "worker-1")


def test_a_job_that_is_changed_on_the_way_to_the_operator_does_not_run_with_its_old_quota(tmp_path: Path) -> None:
    with queues_of(tmp_path, "both") as queues:
        queue = queues.queue(4, flavor={"nodeLabels": {"disk": "ssd"}})
        job = queues.submit("grows", queue, Worker=1)
        queues.wait_running(job, "worker-0")
        queues.kueue.restart(OFF)
        container = {"name": "tensorflow", "image": "x", "resources": {"requests": {"cpu": "64"}}}
        template = job.get()["spec"]["tfReplicaSpecs"]["Worker"]["template"]
        template["spec"]["containers"] = [container]
        job.patch_spec(tfReplicaSpecs={"Worker": {"template": template}})
        follow(queues, "annotate workloads.kueue.x-k8s.io -n team tfjob", job)
        queues.ours = True
        queues.wait_held(job)
        queues.wait_queue(job, QueueState.WAITING, "quota for cpu")
        queues.wait_reserved(queue, 0)
