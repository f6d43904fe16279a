"""A TFJob controller over the fake API server, with real informers; the test decides when syncs run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hack.faults.oracle.history import conditions_in
from tests.support.cluster import tfjob
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tests.support.manifests import pod_status
from tests.support.plan_options import controller_options, plan_options
from tfoperator.api.replicas.names import LABEL_OPERATOR_NAME, OPERATOR_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.controller import (
    Collaborators,
    ControllerInformers,
    ControllerMetrics,
    ControllerOptions,
    GangScheduler,
    TFJobController,
)
from tfoperator.events import ObjectReference
from tfoperator.expectations import Expectations
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from tfoperator.workqueue import RateLimitingQueue

READS = ("get", "list")
WRITES = ("create", "patch", "delete", "replace", "deletecollection")


class EventList:
    """A recorder that keeps the events that it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.events.append((type, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]

    def messages(self, reason: str) -> list[str]:
        return [message for _, event_reason, message in self.events if event_reason == reason]


class Harness:
    """Use as a context manager. Jobs live in namespace `ns`."""

    def __init__(
        self,
        *,
        api: FakeApi | None = None,
        clock: Clock | None = None,
        options: ControllerOptions | None = None,
        metrics: ControllerMetrics | None = None,
        gang: GangScheduler | None = None,
        archive: Any = None,
        kueue: bool = False,
    ) -> None:
        self.api = api or FakeApi(clock.now if clock is not None else None)
        self.recorder = EventList()
        self.expectations = Expectations(clock=clock)
        self.queue: RateLimitingQueue[str] = RateLimitingQueue(base=0.001, cap=0.05, clock=clock)
        self.factory = SharedInformerFactory(self.api, clock=clock)
        self.informers = ControllerInformers.of(self.factory, gang, kueue=kueue)
        outside = Collaborators(
            self.api, self.recorder, clock or SystemClock(), metrics or ControllerMetrics(), archive
        )
        self.controller = TFJobController(
            outside,
            self.informers,
            queue=self.queue,
            expectations=self.expectations,
            options=options or controller_options(batch_period=0, plan=plan_options(gang=gang)),
        )

    def __enter__(self) -> Harness:
        self.factory.start()
        assert self.factory.wait_for_sync(10)
        return self

    def __exit__(self, *_: object) -> None:
        stopped = self.controller.stop(10)
        assert self.factory.stop(10)
        assert stopped

    def submit(self, name: str = "job", **what: Any) -> dict[str, Any]:
        """Store a TFJob and wait until the cache shows it."""
        stored = self.api.put(TFJOBS, namespaced(tfjob(name, **what)))
        self.catch_up()
        return stored

    def sync(self, name: str = "job", *, times: int = 1) -> None:
        """Sync on caches that show all there is, and wait until they show what that did; so often."""
        self.catch_up()
        for _ in range(times):
            self.controller.sync_tfjob(f"ns/{name}")
            self.catch_up()

    def catch_up(self) -> None:
        """Wait until the caches, and the handlers behind them, are where the server is."""
        for resource, group in self._caches():
            eventually(lambda r=resource, g=group: self._cached(g) == self._stored(r), what=f"{resource.plural} cached")
        for namespace, name in [(o["metadata"]["namespace"], o["metadata"]["uid"]) for o in self.api.objects(TFJOBS)]:
            eventually(lambda uid=name: not self.expectations.outstanding(uid), what=f"{namespace}: handlers")

    def settle(self) -> None:
        """Wait until the queue is empty, and the caches show all writes so far."""
        for _ in range(2):
            self.catch_up()
            eventually(lambda: len(self.queue) == 0 and self.queue.unfinished_work_seconds() == 0, what="an idle queue")
        self.catch_up()

    def status(self, name: str = "job") -> dict[str, Any]:
        """The job's status on the server."""
        [job] = [job for job in self.api.objects(TFJOBS) if job["metadata"]["name"] == name]
        return job.get("status", {})

    def condition(self, kind: str, name: str = "job") -> dict[str, Any]:
        """One condition on the server; empty if there is none."""
        conditions = [condition for condition in conditions_in(self.status(name)) if condition["type"] == kind]
        return conditions[0] if conditions else {}

    def play_kubelet(self, pod: str, phase: str, *, exit_code: int | None = None) -> None:
        """Report a pod's phase, and wait until the cache shows it."""
        self.api.edit(PODS, "ns", pod, {"status": pod_status(phase, exit_code=exit_code)})
        self.catch_up()

    def submit_and_sync(self, name: str = "job", **what: Any) -> dict[str, Any]:
        """Submit a job and sync it once; returns it as it was stored."""
        stored = self.submit(name, **what)
        self.sync(name)
        return stored

    def running(self, **what: Any) -> dict[str, Any]:
        """Submit a job all of whose pods run; returns it as it was stored."""
        stored = self.submit_and_sync(**what)
        self.run_all()
        return stored

    def run_all(self) -> None:
        """Report every pod as running, and sync."""
        for pod in self.api.names(PODS):
            self.play_kubelet(pod, "Running")
        self.sync()

    def suspend(self) -> None:
        """Suspend the only job, and wait until the cache shows it."""
        self.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": True}}})
        self.catch_up()

    def calls(self, *verbs: str) -> list[tuple[str, str]]:
        """The requests so far, watches aside, as verb and resource."""
        wanted: Sequence[str] = verbs or (*READS, *WRITES)
        return [(call.verb, call.resource) for call in self.api.calls if call.verb in wanted]

    def forget_calls(self) -> None:
        """Count from here on."""
        self.api.calls.clear()

    def expected_when_created(self, uid: str) -> list[bool]:
        """Whether something of this job is expected at each creation from here on, when it is asked for."""
        outstanding: list[bool] = []
        self.api.react(
            lambda call: outstanding.append(bool(self.expectations.outstanding(uid))) if call.verb == "create" else None
        )
        return outstanding

    def calls_of_sync(self) -> list[tuple[str, str]]:
        """The requests that one more sync makes."""
        self.forget_calls()
        self.sync()
        return self.calls()

    def _caches(self) -> list[tuple[Resource, Any]]:
        caches: list[tuple[Resource, Any]] = [
            (TFJOBS, self.informers.jobs),
            (PODS, self.informers.pods),
            (SERVICES, self.informers.services),
            (DEPLOYMENTS, self.informers.deployments),
        ]
        if self.informers.gang is not None:
            caches.append((self.informers.gang.pod_groups, self.informers.pod_groups))
        return caches

    def _cached(self, group: Any) -> dict[str, str]:
        return {obj.metadata.key: obj.metadata.resource_version for obj in group.lister.list()}

    def _stored(self, resource: Resource) -> dict[str, str]:
        labelled = resource is TFJOBS
        return {
            f"{obj['metadata']['namespace']}/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for obj in self.api.objects(resource)
            if labelled or obj["metadata"].get("labels", {}).get(LABEL_OPERATOR_NAME) == OPERATOR_NAME
        }


def namespaced(manifest: dict[str, Any]) -> dict[str, Any]:
    """The same object, in the harness's namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": "ns"}}
