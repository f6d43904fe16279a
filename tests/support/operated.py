"""One operator and one namespace for the many small cases of a test module.

A process and a namespace per case would take longer than the case. So each case has its own job instead, and sees only
that job's pods, services and events. Replicas are called `worker-0`: their names without the job's name.
"""

import itertools
import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hack.pod_environment import variables
from tests.support.cluster import Cluster, Json, decode, find, tfjob
from tests.support.eventually import eventually, eventually_holds
from tests.support.operator_process import OperatorProcess
from tfoperator.api.fields.limits import MANAGED_BY_OPERATOR
from tfoperator.api.replicas.names import job_selector
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource

HOLD = "example.invalid/hold"
"""A finalizer: the deletion of a job that carries it can be read off the job itself."""


def parse_time(text: str) -> float:
    """Seconds since the epoch of an API server's timestamp."""
    return datetime.fromisoformat(text).timestamp()


class JobOnCluster:
    """A job that was submitted, and all that belongs to it."""

    def __init__(self, cluster: Cluster, manifest: Json) -> None:
        self.cluster = cluster
        self.name = str(manifest["metadata"]["name"])
        self.uid = str(manifest["metadata"]["uid"])

    # The job.

    def get(self) -> Json:
        return self.cluster.job(self.name)

    def status(self) -> Json:
        return dict(self.get().get("status") or {})

    def conditions(self) -> dict[str, Json]:
        return self.cluster.conditions(self.name)

    def state(self) -> str:
        """Return what `kubectl get tfjobs` prints: the type of the last condition, "" before the first condition."""
        conditions = self.status().get("conditions") or [{"type": ""}]
        return str(conditions[-1]["type"])

    def wait(self, condition: str, within: float = 60) -> Json:
        return self.cluster.wait_condition(self.name, condition, within)

    def patch(self, change: Json) -> Json:
        return self.cluster.client.patch(TFJOBS, self.cluster.namespace, self.name, change, decode)

    def patch_spec(self, **spec: Any) -> Json:
        return self.patch({"spec": spec})

    def scale(self, **replicas: int) -> None:
        self.patch_spec(tfReplicaSpecs={kind: {"replicas": count} for kind, count in replicas.items()})

    def suspend(self, suspended: bool = True) -> None:
        self.patch_spec(runPolicy={"suspend": suspended})

    def delete(self) -> None:
        self.cluster.client.delete(TFJOBS, self.cluster.namespace, self.name, propagation_policy="Background")

    def is_gone(self) -> bool:
        job = find(self.cluster.client, TFJOBS, self.cluster.namespace, self.name)
        return job is None or str(job["metadata"]["uid"]) != self.uid

    def wait_deletion_time(self, within: float = 60) -> float:
        """Return when the deletion of the job (which carries HOLD) was requested, in seconds; remove HOLD."""
        deleted = eventually(
            lambda: self.get()["metadata"].get("deletionTimestamp"), within=within, every=0.05, what="the job's end"
        )
        self.patch({"metadata": {"finalizers": None}})
        return parse_time(str(deleted))

    def completed(self, kind: str) -> str:
        """The indexes of a replica type that have succeeded, as the status has them; "" for none."""
        counts = self.status().get("replicaStatuses", {}).get(kind, {})
        return str(counts.get("completedIndexes", ""))

    def restarts(self) -> int:
        return int(self.status().get("restarts") or 0)

    def events(self) -> list[Json]:
        return [event for event in self.cluster.events() if event["involvedObject"].get("uid") == self.uid]

    def reasons(self) -> set[str]:
        return {str(event["reason"]) for event in self.events()}

    def wait_reasons(self, *reasons: str) -> None:
        def are_recorded() -> None:
            missing = set(reasons) - self.reasons()
            assert not missing, missing

        eventually_holds(are_recorded, every=0.05, what=f"events {reasons}")

    # Its pods and services.

    def pods(self) -> dict[str, Json]:
        return self._children(PODS)

    def services(self) -> dict[str, Json]:
        return self._children(SERVICES)

    def wait_pods(self, *replicas: str, within: float = 60) -> dict[str, Json]:
        """Wait until there are pods for exactly these replicas."""

        def there() -> None:
            pods = self.pods()
            assert set(pods) == set(replicas), sorted(pods)

        eventually_holds(there, within=within, every=0.05, what=f"pods of {self.name}: {replicas}")
        return self.pods()

    def wait_stopped(self, *replicas: str) -> dict[str, Json]:
        """Wait until the job's end has stopped exactly these replicas; the pods of all that are there."""

        def stopped() -> None:
            pods = self.pods()
            assert {name for name in pods if pods[name]["spec"].get("activeDeadlineSeconds") == 1} == set(replicas)

        eventually_holds(stopped, every=0.05, what=f"stopped: {replicas}")
        return self.pods()

    def wait_services(self, *replicas: str) -> None:
        eventually(lambda: set(self.services()) == set(replicas), every=0.05, what=f"services {replicas}")

    def wait_successor(self, replica: str, of: str, within: float = 60) -> Json:
        """Wait until the replica has another pod than that with the UID `of`."""

        def there() -> Json | None:
            pod = self.pods().get(replica)
            assert pod is not None, self.status()
            return pod if pod["metadata"]["uid"] != of else None

        return eventually(there, within=within, every=0.05, what=f"a new pod of {replica}") or {}

    def fail(self, replica: str, **report: Any) -> Json:
        """Report that the replica's pod has failed; the pod that is made in its place, once it is there."""
        failed = self.pod_uid(replica)
        self.play("Failed", replica, **report)
        return self.wait_successor(replica, of=failed)

    def pod_uid(self, replica: str) -> str:
        return str(self.pods()[replica]["metadata"]["uid"])

    def pod_name(self, replica: str) -> str:
        return f"{self.name}-{replica}"

    def play(self, phase: str, *replicas: str, leads_to: str = "", **report: Any) -> None:
        """Report the phase of these replicas' pods, `report` as in `Cluster.set_phase`; wait until that has led to this
        condition of the job.
        """
        for replica in replicas:
            self.cluster.set_phase(self.pod_name(replica), phase, **report)
        if leads_to:
            self.wait(leads_to)

    def bind(self, *replicas: str, node: str = "node-1") -> None:
        for replica in replicas:
            self.cluster.bind(self.pod_name(replica), node)

    def delete_pod(self, replica: str, **how: Any) -> None:
        self.cluster.delete_pod(self.pod_name(replica), **how)

    def container(self, replica: str) -> Json:
        """The training container of the replica's pod."""
        containers = self.pods()[replica]["spec"]["containers"]
        return next(dict(container) for container in containers if container["name"] == "tensorflow")

    def tf_config(self, replica: str) -> Json | None:
        """Return the TF_CONFIG that the replica's program reads."""
        container = self.container(replica)
        names = [variable["name"] for variable in container.get("env") or ()]
        assert names.count("TF_CONFIG") <= 1
        return dict(json.loads(variables(container)["TF_CONFIG"])) if "TF_CONFIG" in names else None

    def _children(self, resource: Resource) -> dict[str, Json]:
        listed = self.cluster.client.list(
            resource, self.cluster.namespace, decode, ListOptions(label_selector=job_selector(self.name))
        )
        children = {}
        for item in listed.items:
            owners = item["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == self.uid and owner.get("controller") for owner in owners):
                children[str(item["metadata"]["name"]).removeprefix(f"{self.name}-")] = item
        return children


class Operated:
    """A namespace that one operator looks after."""

    def __init__(self, cluster: Cluster, operator: OperatorProcess) -> None:
        self.cluster = cluster
        self.operator = operator
        self._canary: JobOnCluster | None = None
        self._rounds = itertools.count(1)

    def submit(self, manifest: Json) -> JobOnCluster:
        return JobOnCluster(self.cluster, self.cluster.submit(manifest))

    def job(self, name: str, **options: Any) -> JobOnCluster:
        """Submit a job; `options` as in `tests.support.cluster.tfjob`."""
        return self.submit(tfjob(name, **options))

    def running(self, name: str, **options: Any) -> JobOnCluster:
        """Submit a job and play it up to where all of its pods run."""
        job = self.job(name, **options)
        replicas = job.get()["spec"]["tfReplicaSpecs"]
        names = [f"{kind.lower()}-{i}" for kind, spec in replicas.items() for i in range(spec["replicas"])]
        job.wait_pods(*names)
        job.play("Running", *names, leads_to="Running")
        total = len(names)
        eventually(lambda: job.status().get("ready") == f"{total}/{total}", every=0.05, what="all are seen to run")
        return job

    def restart_operator(self, meanwhile: Callable[[], object] | None = None) -> None:
        """Kill the operator, as a node's death does, and start another; `meanwhile` happens while there is none."""
        self.operator.kill()
        if meanwhile is not None:
            meanwhile()
        self.operator.start().wait_ready()

    def settle(self, *, first_statuses: bool = True) -> None:
        """Return when the operator has acted on all that has happened to jobs and pods until now.

        Without `first_statuses` for jobs that never get a status. Other jobs may have pods before they have a status,
        because a first status waits a moment for news.

        A test can't wait for something that must *not* happen. But watches keep their order: once the operator answers
        later changes, a job's spec and a pod's readiness, it has seen the earlier changes. Twice, since it works on
        several jobs at a time.
        """
        if self._canary is None:
            self._canary = self.job("canary", restart_policy="OnFailure", Worker=1)
            self._canary.wait_pods("worker-0")
        for _ in range(2):
            number = next(self._rounds)
            ready = number % 2
            self._canary.play("Running", "worker-0", ready=bool(ready))
            generation = self._canary.patch_spec(runPolicy={"backoffLimit": 1000 + number})["metadata"]["generation"]
            self._await_canary(f"{ready}/1", generation)
        if first_statuses:
            eventually(self._all_have_a_status, every=0.02, what="every job's first status")

    def _all_have_a_status(self) -> bool:
        jobs = self.cluster.client.list(TFJOBS, self.cluster.namespace, decode).items
        ours = [
            job
            for job in jobs
            if (job["spec"].get("runPolicy") or {}).get("managedBy") in (None, "", MANAGED_BY_OPERATOR)
        ]
        return all(job.get("status") or "deletionTimestamp" in job["metadata"] for job in ours)

    def _await_canary(self, ready: str, generation: int) -> None:
        def answered() -> bool:
            assert self._canary is not None
            status = self._canary.status()
            return status.get("ready") == ready and status.get("observedGeneration") == generation

        eventually(answered, every=0.02, what="the operator answers to the canary")


def wait_until_clock(moment: float) -> None:
    """Wait until the wall clock, which stamps whole seconds, has passed a moment (seconds since the epoch)."""
    eventually(lambda: time.time() >= moment, what="the clock goes on")
