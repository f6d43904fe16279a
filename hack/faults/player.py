"""Plays the part of users, kubelets and nodes: whatever happens to jobs and pods that is not the operator's doing.

It talks straight to the API server, and keeps account of what it did to whom: the oracle must be able to tell its
deletions from the operator's. What it can't do, because the operator was faster or the server is away, it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from hack.faults.companions import Companions
from hack.faults.journal import Journal, Keeper
from hack.faults.pod_reports import phase_of, pod_status, restarts_of
from hack.faults.steps import Act, JobShape, Step
from hack.faults.surroundings import BOARD_LABEL, Surroundings
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.resources import PODS, SERVICES, Resource

__all__ = ["Player"]

Json = dict[str, Any]

_ON_PODS = frozenset(
    {
        Act.RUN,
        Act.SUCCEED,
        Act.FAIL,
        Act.EVICT,
        Act.RESTART_IN_PLACE,
        Act.DELETE_POD,
        Act.DELETE_BOUND_POD,
        Act.LOSE_NODE,
        Act.NODE_SILENT,
        Act.END_TERMINATING,
    }
)
_BINDINGS = Resource("", "v1", "Binding", "bindings")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Player:
    """Acts in one namespace. For one thread. `now` is the wall clock of nodes."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        shapes: Iterable[JobShape],
        keeper: Keeper,
        now: Callable[[], datetime],
        companions: Companions,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._shapes = tuple(shapes)
        self._keeper = keeper
        self._now = now
        self._lost_nodes: set[str] = set()
        self.account = Journal(gang=companions.gang)
        self._surroundings = Surroundings(client, namespace, companions, keeper, self.account)

    def journal(self) -> Journal:
        """All that has happened."""
        entries, gaps = self._keeper.entries(), self._keeper.gaps()
        return msgspec.structs.replace(self.account, entries=entries, gaps=gaps, now=self._now())

    def act(self, step: Step) -> str:
        """Do what the step says; returns what it came to, for people."""
        try:
            return self._act(step)
        except (NotFoundError, ConflictError) as error:
            return f"too late: {error}"
        except KubeError as error:
            return f"failed: {error}"

    def _act(self, step: Step) -> str:
        shape = self._shapes[step.job]
        match step.act:
            case Act.CREATE:
                self._client.create(TFJOBS, self._namespace, shape.manifest(), _decode)
                return shape.name
            case Act.SCALE:
                return self._scale(shape, step)
            case Act.SUSPEND | Act.RESUME:
                return self._patch_spec(shape.name, {"runPolicy": {"suspend": step.act is Act.SUSPEND}})
            case Act.CHANGE_BOARD:
                return self._patch_spec(shape.name, {"tensorBoard": step.value})
            case Act.CHANGE_GANG:
                return self._patch_spec(shape.name, {"runPolicy": {"schedulingPolicy": step.value}})
            case Act.DELETE_JOB:
                return self._delete_job(shape.name, str(step.value))
            case Act.DELETE_SERVICE:
                return self._delete_service(shape.name, step.pick)
            case Act.RUN if step.value == "all":
                return ", ".join(self._run(pod) for pod in self._pods(shape.name, ("Pending",)))
            case _ if step.act in _ON_PODS:
                return self._act_on_pod(step, shape.name)
            case _:
                return self._surroundings.act(step, shape.name)

    # Jobs.

    def _job(self, name: str) -> Json | None:
        return next((job for job in self._keeper.current("TFJob") if job["metadata"]["name"] == name), None)

    def _scale(self, shape: JobShape, step: Step) -> str:
        if step.value is None:
            return "nothing to scale"
        kind, count = step.value
        return self._patch_spec(shape.name, {"tfReplicaSpecs": {kind: {"replicas": count}}})

    def _patch_spec(self, name: str, spec: Json) -> str:
        self._keeper.add(self._client.patch(TFJOBS, self._namespace, name, {"spec": spec}, _decode), "TFJob")
        return f"{name} {spec}"

    def _delete_job(self, name: str, policy: str) -> str:
        job = self._job(name)
        if job is None:
            return "no such job"
        uid = job["metadata"]["uid"]
        self.account.discarded.add(uid)
        self._client.delete(TFJOBS, self._namespace, name, uid=uid, propagation_policy=policy)
        return f"{name} ({policy})"

    def _delete_service(self, job: str, pick: float) -> str:
        services = [one for one in self._keeper.current("Service") if _job_name(one) == job and not _is_of_board(one)]
        if not services:
            return "no service"
        service = services[int(pick * len(services))]
        self.account.taken.add(service["metadata"]["uid"])
        name = service["metadata"]["name"]
        self._client.delete(SERVICES, self._namespace, name, uid=service["metadata"]["uid"])
        return str(name)

    # Pods.

    def _pods(self, job: str, phases: Iterable[str], *, terminating: bool = False) -> list[Json]:
        return [
            pod
            for pod in self._keeper.current("Pod")
            if (not job or _job_name(pod) == job)
            and not _is_of_board(pod)
            and phase_of(pod) in phases
            and bool(pod["metadata"].get("deletionTimestamp")) == terminating
        ]

    def _act_on_pod(self, step: Step, job: str) -> str:
        candidates = {
            Act.RUN: self._pods(job, ("Pending",)),
            Act.SUCCEED: self._pods(job, ("Running",)),
            Act.FAIL: self._pods(job, ("Running",)),
            Act.EVICT: self._pods(job, ("Pending", "Running")),
            Act.RESTART_IN_PLACE: [
                pod for pod in self._pods(job, ("Running",)) if pod["spec"].get("restartPolicy") != "Never"
            ],
            Act.DELETE_POD: self._pods(job, ("Pending", "Running", "Failed", "Succeeded")),
            Act.DELETE_BOUND_POD: self._pods(job, ("Pending", "Running")),
            Act.LOSE_NODE: self._pods(job, ("Running",)),
            Act.NODE_SILENT: self._pods(job, ("Running",)),
            Act.END_TERMINATING: self._ending(job),
        }[step.act]
        if not candidates:
            return "no such pod"
        pod = candidates[int(step.pick * len(candidates))]
        match step.act:
            case Act.RUN:
                return self._run(pod)
            case Act.SUCCEED:
                return self._report(pod, "Succeeded", code=0)
            case Act.FAIL:
                return self._report(pod, "Failed", code=int(step.value))
            case Act.EVICT:
                return self._report(pod, "Failed", reason="Evicted")
            case Act.RESTART_IN_PLACE:
                return self._report(pod, "Running", restarts=restarts_of(pod) + 1)
            case Act.DELETE_POD:
                return self._take(pod)
            case Act.DELETE_BOUND_POD:
                self._bind(pod)
                return self._evict(pod) if step.value == "evict" else self._take(pod)
            case Act.LOSE_NODE | Act.NODE_SILENT:
                return self._lose_node(pod, silent=step.act is Act.NODE_SILENT)
            case _:
                return self._end(pod)

    def _ending(self, job: str) -> list[Json]:
        """Pods whose containers are told to stop, on nodes that can say that they have."""
        terminating = self._pods(job, ("Pending", "Running", "Failed", "Succeeded", "Unknown"), terminating=True)
        return [pod for pod in terminating if pod["metadata"]["uid"] not in self._lost_nodes]

    def _nobodys(self) -> list[Json]:
        """Terminating pods on lost nodes whose job is gone or going: it is for the cluster to take these away."""
        jobs = {
            job["metadata"]["uid"]
            for job in self._keeper.current("TFJob")
            if not job["metadata"].get("deletionTimestamp")
        }
        terminating = self._pods("", ("Pending", "Running", "Failed", "Succeeded", "Unknown"), terminating=True)
        return [
            pod
            for pod in terminating
            if not jobs & {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}
        ]

    def _run(self, pod: Json) -> str:
        if self.account.gang and not pod["spec"].get("nodeName"):
            # What a gang's size depends on.
            self._bind(pod)
            pod = self._client.get(PODS, self._namespace, pod["metadata"]["name"], _decode)
        return self._report(pod, "Running")

    def _report(
        self, pod: Json, phase: str, *, code: int | None = None, reason: str = "", restarts: int | None = None
    ) -> str:
        """What a kubelet says of a pod; refused if the pod has changed since we looked."""
        meta = pod["metadata"]
        status = pod_status(phase, code, reason, restarts_of(pod) if restarts is None else restarts, self._now())
        change = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        answer = self._client.patch(PODS, self._namespace, meta["name"], change, _decode, subresource="status")
        self._keeper.add(answer, "Pod")
        return f"{meta['name']} {phase}{'' if code is None else f' ({code})'}{reason and f' ({reason})'}"

    def _take(self, pod: Json, grace: int | None = None) -> str:
        meta = pod["metadata"]
        self.account.taken.add(meta["uid"])
        self._client.delete(PODS, self._namespace, meta["name"], uid=meta["uid"], grace_period_seconds=grace)
        return str(meta["name"])

    def _evict(self, pod: Json) -> str:
        """As a drain does it."""
        meta = pod["metadata"]
        self.account.taken.add(meta["uid"])
        evictions = Resource("", "v1", "Eviction", f"pods/{meta['name']}/eviction")
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
        body["deleteOptions"] = {"preconditions": {"uid": meta["uid"]}}
        self._client.create(evictions, self._namespace, body, _decode)
        return f"{meta['name']} evicted"

    def _end(self, pod: Json) -> str:
        """The containers of a terminating pod have stopped."""
        meta = pod["metadata"]
        self._client.delete(PODS, self._namespace, meta["name"], uid=meta["uid"], grace_period_seconds=0)
        return str(meta["name"])

    def _bind(self, pod: Json) -> None:
        """From now on the pod's end needs a kubelet."""
        if not pod["spec"].get("nodeName"):
            name = pod["metadata"]["name"]
            binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
            self._client.create(_BINDINGS, self._namespace, binding, _decode)

    def _lose_node(self, pod: Json, *, silent: bool) -> str:
        """The node dies. Either it is only silent, or the cluster has given its pods up already."""
        name = pod["metadata"]["name"]
        self._bind(pod)
        if silent:
            bound = self._client.get(PODS, self._namespace, name, _decode)
            if phase_of(bound) != "Running" or bound["metadata"].get("deletionTimestamp"):
                return "too late"
            told = self._report(bound, "Unknown", reason="NodeLost")
            # Not before: of a node that nobody knows to be lost nobody would free the pod.
            self._lost_nodes.add(pod["metadata"]["uid"])
            return told
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        change = {"status": {"conditions": [disruption]}}
        self._client.patch(PODS, self._namespace, name, change, _decode, subresource="status")
        self._lost_nodes.add(pod["metadata"]["uid"])
        return self._take(pod)

    # When all is well again.

    def tend(self, *, succeed: bool = False) -> None:
        """What kubelets do when nothing is wrong: start what is pending, end what terminates, bring back lost nodes.

        With `succeed` programs come to their end, too. Failures don't matter: this is done again and again.
        """
        self._surroundings.tend()
        for pod in self._pods("", ("Pending",)):
            self._try(self._run, pod)
        for pod in (*self._ending(""), *self._nobodys()):
            self._try(self._end, pod)
        unknown = self._pods("", ("Unknown",))
        waiting = self._waiting() if unknown else set()
        for pod in unknown:
            # Where a lost pod is not replaced the job waits for its node.
            if pod["metadata"]["uid"] in waiting:
                self._lost_nodes.discard(pod["metadata"]["uid"])
                self._try(self._run, pod)
        if succeed:
            for pod in self._pods("", ("Running",)):
                self._try(lambda one: self._report(one, "Succeeded", code=0), pod)

    def _waiting(self) -> set[str]:
        """Pods of jobs whose policy is Never, which wait for a silent node."""
        found = set()
        for job in self._keeper.current("TFJob"):
            for kind, spec in job["spec"]["tfReplicaSpecs"].items():
                if spec.get("restartPolicy") == "Never":
                    prefix = f"{job['metadata']['name']}-{kind.lower()}-"
                    found |= {
                        pod["metadata"]["uid"]
                        for pod in self._keeper.current("Pod")
                        if str(pod["metadata"]["name"]).startswith(prefix)
                    }
        return found

    def resume_all(self) -> None:
        """No job is to be suspended any more."""
        for job in self._keeper.current("TFJob"):
            if (job["spec"].get("runPolicy") or {}).get("suspend"):
                self._try(lambda one: self._patch_spec(one["metadata"]["name"], {"runPolicy": {"suspend": False}}), job)

    @staticmethod
    def _try(action: Callable[[Json], object], obj: Json) -> None:
        try:
            action(obj)
        except KubeError:
            pass


def _job_name(obj: Json) -> str:
    return str((obj["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name", ""))


def _is_of_board(obj: Json) -> bool:
    return BOARD_LABEL in (obj["metadata"].get("labels") or {})
