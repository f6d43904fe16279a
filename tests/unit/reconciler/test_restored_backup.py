"""etcd is restored from a backup below a running operator: versions go back, and its watches do not report it."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import tfjob
from tests.support.controller_harness import namespaced
from tests.support.eventually import eventually
from tests.support.manifests import pod_status
from tests.unit.reconciler.test_reconciler import World
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import FLAVORS
from tfoperator.kube.protocol.resources import PODS


class Restorable(World):
    """A controller that works on a server with a backup, and a reconciler that a test drives."""

    def __init__(self, *, kueue: bool = False) -> None:
        super().__init__(kueue=kueue)
        self.server = self.api

    def live_on(self) -> None:
        """Write much after the backup, of the job and of its pods, too."""
        self.server.edit(TFJOBS, "ns", "job", {"metadata": {"annotations": {"note": "1"}}})
        for pod in self.server.names(PODS):
            self.server.edit(PODS, "ns", pod, {"metadata": {"annotations": {"note": "1"}}})
        self.server.pass_version(self.server.version + 100)
        for pod in self.server.names(PODS):
            self.server.edit(PODS, "ns", pod, {"metadata": {"annotations": {"note": "2"}}})
        self.settle()

    def uid(self, pod: str) -> str:
        """The UID of a pod on the server; empty if there is none."""
        return next((obj["metadata"]["uid"] for obj in self.server.objects(PODS) if obj["metadata"]["name"] == pod), "")


@pytest.fixture
def world() -> Iterator[Restorable]:
    with Restorable() as world:
        world.run_job(Worker=2, restart_policy="OnFailure")
        yield world


@pytest.mark.parametrize("passed", [False, True])
def test_what_happens_after_a_restored_backup_is_acted_on(world: Restorable, passed: bool) -> None:
    """Also if so much has been written since that the versions look as if nothing had happened (`passed`)."""
    backup = world.server.backup()
    world.live_on()
    ahead = world.server.version
    world.server.restore(backup)
    if passed:
        world.server.pass_version(ahead + 100)
    failed = world.uid("job-worker-1")
    # The same as ever, but the watches of the caches wait for later versions.
    world.server.edit(PODS, "ns", "job-worker-1", {"status": pod_status("Failed", exit_code=1)})
    for _ in range(3):
        world.look()
    eventually(lambda: world.uid("job-worker-1") not in ("", failed), what="worker 1 is started again")
    world.server.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
    eventually(lambda: not world.server.names(PODS), what="the job is suspended")
    assert world.condition("Suspended")["status"] == "True"


def test_a_flavor_that_is_changed_after_a_restored_backup_is_seen() -> None:
    def nodes() -> dict[str, str]:
        flavor = world.informers.kueue.flavors.lister.find("fast")
        return {} if flavor is None else flavor.spec.node_labels

    with Restorable(kueue=True) as world:
        world.server.put(FLAVORS, {"metadata": {"name": "fast"}, "spec": {"nodeLabels": {"disk": "hdd"}}})
        world.run_job(Worker=1)
        backup = world.server.backup()
        world.live_on()
        world.server.edit(FLAVORS, "", "fast", {"metadata": {"annotations": {"note": "1"}}})
        eventually(lambda: world.informers.kueue.flavors.versions == [str(world.server.version)], what="it is seen")
        world.server.restore(backup)
        world.server.edit(FLAVORS, "", "fast", {"spec": {"nodeLabels": {"disk": "ssd"}}})
        world.look()
        eventually(lambda: nodes() == {"disk": "ssd"}, what="new pods get the present labels")


def test_a_workload_that_was_deleted_after_the_backup_counts_again() -> None:
    def suspend(value: bool) -> None:
        world.server.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": value}}})

    with Restorable(kueue=True) as world:
        world.server.put(FLAVORS, {"metadata": {"name": "fast"}})
        job = tfjob("job", Worker=1)
        job["metadata"]["labels"] = {QUEUE_LABEL: "research"}
        world.server.put(TFJOBS, namespaced(job))
        eventually(lambda: world.server.names(WORKLOADS), what="the operator requests quota")
        backup = world.server.backup()
        suspend(True)
        eventually(lambda: not world.server.names(WORKLOADS), what="a suspended job needs no quota")
        world.live_on()
        world.server.restore(backup)
        (workload,) = world.server.names(WORKLOADS)
        world.look()
        world.settle()
        given = {"name": "worker", "count": 1, "flavors": {"cpu": "fast"}}
        conditions = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
        admission = {"clusterQueue": "big", "podSetAssignments": [given]}
        world.server.edit(WORKLOADS, "ns", workload, {"status": {"admission": admission, "conditions": conditions}})
        eventually(lambda: world.server.names(PODS), what="the job has quota, so it starts", within=20)


def test_one_list_that_is_older_than_the_caches_is_enough(world: Restorable) -> None:
    backup = world.server.backup()
    world.live_on()
    world.server.restore(backup)
    world.forget_calls()
    world.look()
    world.settle()
    eventually(lambda: world.informers.jobs.versions == [str(world.server.version)], what="jobs are listed anew")
    world.forget_calls()
    world.look()
    assert world.calls() == [("list", "tfjobs"), ("list", "pods"), ("list", "services")], "all is well"


def test_a_spec_of_the_lost_history_is_not_taken_for_one_of_the_same_generation(world: Restorable) -> None:
    def scale(workers: int) -> None:
        world.server.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers}}}})

    backup = world.server.backup()
    scale(4)
    eventually(lambda: len(world.server.names(PODS)) == 4, what="4 workers")
    world.settle()
    world.server.restore(backup)
    scale(3)
    world.look()
    eventually(lambda: len(world.server.names(PODS)) == 3, what="3 workers")
