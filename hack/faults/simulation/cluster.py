"""Simulates users, kubelets and nodes: whatever happens to jobs and pods and is not done by the operator.

It sends its requests to the API server, not to the proxy, and notes what it did to which object: the oracle must be
able to tell its deletions from the operator's. A step that is impossible, because the operator was faster or the
server is away, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

import msgspec

from hack.faults.journal import Journal, Recorder
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from hack.faults.simulation.attachments import TENSORBOARD_LABEL, AttachmentSimulator
from hack.faults.simulation.namespace import Json, Namespace, uid_of
from hack.faults.simulation.pod_status import (
    phase_of,
    pod_status,
    program_end,
    restarts_of,
    runs_on_after,
    with_sidecar,
)
from hack.faults.simulation.programs import Programs
from tfoperator.api.replicas.names import ANNOTATION_PROBE
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import ApiClient

_RUNNING = ("Running",)
_LIVING = ("Pending", "Running")
_ON_PODS: dict[Act, tuple[str, ...]] = {
    Act.RUN: ("Pending",),
    Act.SUCCEED: _RUNNING,
    Act.FAIL: _RUNNING,
    Act.EVICT: _LIVING,
    Act.RESTART_IN_PLACE: _RUNNING,
    Act.DELETE_POD: (*_LIVING, "Failed", "Succeeded"),
    Act.DELETE_BOUND_POD: _LIVING,
    Act.LOSE_NODE: _RUNNING,
    Act.NODE_SILENT: _RUNNING,
    Act.END_TERMINATING: (),
}
"""The acts that pick a pod, and the phases that it may be in; none for pods that terminate, in any phase."""
_ON_ENDED_PROGRAMS = (Act.DELETE_POD, Act.DELETE_BOUND_POD, Act.END_TERMINATING)
"""The acts that may pick a pod of which only a sidecar runs on."""
_ANY_PHASE = (*_LIVING, "Failed", "Succeeded", "Unknown")


class ClusterSimulator:
    """Acts in one namespace. For one thread. `now` is the wall clock of nodes."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        shapes: Iterable[JobShape],
        recorder: Recorder,
        now: Callable[[], datetime],
        attachments: Attachments,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`monotonic` returns the seconds of the clock by which programs are played."""
        self._shapes = tuple(shapes)
        self._recorder = recorder
        self._now = now
        self._pods_on_lost_nodes: set[str] = set()
        self.interventions = Journal(gang=attachments.gang)
        self._namespace = Namespace(client, namespace, recorder, self.interventions)
        self._binds = bool(attachments.gang) or attachments.queues
        self._attachments = AttachmentSimulator(self._namespace, attachments)
        self._programs = Programs(self._namespace, now, monotonic)

    def journal(self) -> Journal:
        """All that has happened."""
        entries, gaps = self._recorder.entries(), self._recorder.gaps()
        return msgspec.structs.replace(self.interventions, entries=entries, gaps=gaps, now=self._now())

    def act(self, step: Step) -> str:
        """Do the step; return the result, for people."""
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
                self._namespace.create(TFJOBS, shape.manifest())
                return shape.name
            case Act.SCALE:
                return self._scale(shape, step)
            case Act.SUSPEND | Act.RESUME:
                return self._patch_spec(shape.name, {"runPolicy": {"suspend": step.act is Act.SUSPEND}})
            case Act.CHANGE_TENSORBOARD:
                return self._patch_spec(shape.name, {"tensorBoard": step.value})
            case Act.CHANGE_GANG:
                return self._patch_spec(shape.name, {"runPolicy": {"schedulingPolicy": step.value}})
            case Act.DELETE_JOB:
                return self._delete_job(shape.name, str(step.value))
            case Act.REPORT:
                return self._programs.report(shape.name, step.pick)
            case Act.DELETE_SERVICE:
                return self._delete_service(shape.name, step.pick)
            case Act.RUN if step.value == "all":
                return ", ".join(self._run(pod) for pod in self._pods(shape.name, ("Pending",)))
            case _ if step.act in _ON_PODS:
                return self._act_on_pod(step, shape.name)
            case _:
                return self._attachments.act(step, shape.name)

    def change_scope(self) -> None:
        """Somebody changes `restartScope` of each job: from Job to Replica, or the other way round."""
        for job in self._recorder.current("TFJob"):
            together = (job["spec"].get("runPolicy") or {}).get("restartScope") == "Job"
            change = {"runPolicy": {"restartScope": "Replica" if together else "Job"}}
            self._patch_spec(job["metadata"]["name"], change)

    # Jobs.

    def _job(self, name: str) -> Json | None:
        return next((job for job in self._recorder.current("TFJob") if job["metadata"]["name"] == name), None)

    def _scale(self, shape: JobShape, step: Step) -> str:
        if step.value is None:
            return "nothing to scale"
        kind, count = step.value
        return self._patch_spec(shape.name, {"tfReplicaSpecs": {kind: {"replicas": count}}})

    def _patch_spec(self, name: str, spec: Json) -> str:
        self._namespace.patch(TFJOBS, name, {"spec": spec})
        return f"{name} {spec}"

    def _delete_job(self, name: str, policy: str) -> str:
        job = self._job(name)
        if job is None:
            return "no such job"
        self.interventions.jobs_deleted_by_plan.add(uid_of(job))
        self._namespace.end(TFJOBS, job, propagation_policy=policy)
        return f"{name} ({policy})"

    def _delete_service(self, job: str, pick: float) -> str:
        services = [
            service
            for service in self._recorder.current("Service")
            if _job_name(service) == job and not _is_of_tensorboard(service)
        ]
        if not services:
            return "no service"
        return self._namespace.delete(SERVICES, services[int(pick * len(services))])

    # Pods.

    def _pods(self, job: str, phases: Iterable[str], *, terminating: bool = False) -> list[Json]:
        return [
            pod
            for pod in self._recorder.current("Pod")
            if (not job or _job_name(pod) == job)
            and not _is_of_tensorboard(pod)
            and phase_of(pod) in phases
            and bool(pod["metadata"].get("deletionTimestamp")) == terminating
        ]

    def candidates(self, act: Act, job: str) -> list[Json]:
        """The pods of a job that this act can happen to now, in the order in which `Step.pick` chooses."""
        phases = _ON_PODS[act]
        candidates = self._pods(job, phases) if phases else self._ending(job)
        if act not in _ON_ENDED_PROGRAMS:
            candidates = [pod for pod in candidates if program_end(pod) is None]
        if act is Act.RESTART_IN_PLACE:
            candidates = [pod for pod in candidates if pod["spec"].get("restartPolicy") != "Never"]
        return candidates

    def _act_on_pod(self, step: Step, job: str) -> str:
        candidates = self.candidates(step.act, job)
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
                return self._namespace.delete(PODS, pod)
            case Act.DELETE_BOUND_POD:
                self._bind(pod)
                return self._evict(pod) if step.value == "evict" else self._namespace.delete(PODS, pod)
            case Act.LOSE_NODE | Act.NODE_SILENT:
                return self._lose_node(pod, silent=step.act is Act.NODE_SILENT)
            case _:
                return self._end(pod)

    def _ending(self, job: str) -> list[Json]:
        """Return terminating pods on nodes that can still report that the containers have stopped."""
        terminating = self._pods(job, _ANY_PHASE, terminating=True)
        return [pod for pod in terminating if uid_of(pod) not in self._pods_on_lost_nodes]

    def _without_job(self) -> list[Json]:
        """Terminating pods on lost nodes whose job is gone or going: the cluster, not the operator, removes these."""
        jobs = {uid_of(job) for job in self._recorder.current("TFJob") if not job["metadata"].get("deletionTimestamp")}
        terminating = self._pods("", _ANY_PHASE, terminating=True)
        return [
            pod
            for pod in terminating
            if not jobs & {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}
        ]

    def _run(self, pod: Json) -> str:
        if self._binds and not pod["spec"].get("nodeName"):
            # The size of a gang depends on it, and how long quota is kept.
            self._bind(pod)
            pod = self._namespace.get(PODS, pod["metadata"]["name"])
        if ANNOTATION_PROBE in (pod["metadata"].get("annotations") or {}):
            # The program of a probe never starts.
            if not pod["spec"].get("nodeName"):
                self._bind(pod)
            return f"{pod['metadata']['name']} has a node"
        return self._report(pod, "Running")

    def _report(
        self, pod: Json, phase: str, *, code: int | None = None, reason: str = "", restarts: int | None = None
    ) -> str:
        """Report a pod's status as a kubelet does; refused if the pod has changed since we looked."""
        meta = pod["metadata"]
        restarts = restarts_of(pod) if restarts is None else restarts
        status = pod_status(phase, code, reason, restarts, self._now())
        if len(pod["spec"]["containers"]) > 1:
            ended = program_end(pod)
            if ended is None and code is not None and not reason and runs_on_after(pod, code):
                ended = program_end({"status": status})
                status = pod_status("Running", None, "", restarts, self._now())
            status = with_sidecar(status, ended, self._now())
        change = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        self._namespace.patch(PODS, meta["name"], change, "status")
        return f"{meta['name']} {phase}{'' if code is None else f' ({code})'}{reason and f' ({reason})'}"

    def _evict(self, pod: Json) -> str:
        """As a drain does it."""
        meta = pod["metadata"]
        self.interventions.deleted_by_plan.add(meta["uid"])
        evictions = Resource("", "v1", "Eviction", f"pods/{meta['name']}/eviction")
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
        body["deleteOptions"] = {"preconditions": {"uid": meta["uid"]}}
        self._namespace.create(evictions, body)
        return f"{meta['name']} evicted"

    def _end(self, pod: Json) -> str:
        """The containers of a terminating pod have stopped."""
        return self._namespace.end(PODS, pod, grace_period_seconds=0)

    def _bind(self, pod: Json) -> None:
        """From now on the pod's end needs a kubelet."""
        if not pod["spec"].get("nodeName"):
            self._namespace.bind(pod["metadata"]["name"])

    def _lose_node(self, pod: Json, *, silent: bool) -> str:
        """The node dies. Either it is only silent, or the cluster has given its pods up already."""
        name = pod["metadata"]["name"]
        self._bind(pod)
        if silent:
            bound = self._namespace.get(PODS, name)
            if phase_of(bound) != "Running" or bound["metadata"].get("deletionTimestamp"):
                return "too late"
            result = self._report(bound, "Unknown", reason="NodeLost")
            # Only now: the operator frees a pod only when it knows that the node is lost.
            self._pods_on_lost_nodes.add(uid_of(pod))
            return result
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
        # The node controller's mark: the kubelet's last word was that the container is ready.
        not_ready = {"type": "Ready", "status": "False"}
        change = {"status": {"conditions": [disruption, not_ready]}}
        self._namespace.patch_unrecorded(PODS, name, change, "status")
        self._pods_on_lost_nodes.add(uid_of(pod))
        return self._namespace.delete(PODS, pod)

    # When no fault is injected any more.

    def make_progress(self, *, succeed: bool = False) -> None:
        """Do what kubelets do when nothing is wrong: start pending pods, end terminating pods.

        With `succeed` programs come to their end, too. Failures don't matter: this is done again and again.
        """
        self._attachments.make_progress()
        for shape in self._shapes:
            if shape.reports:
                self._programs.go_on(shape.name)
        for pod in self._pods("", ("Pending",)):
            with suppress(KubeError):
                self._run(pod)
        for pod in self._pods("", _LIVING):
            if pod["spec"].get("activeDeadlineSeconds") is not None and uid_of(pod) not in self._pods_on_lost_nodes:
                with suppress(KubeError):
                    self._report(pod, "Failed", code=143, reason="DeadlineExceeded")
        for pod in (*self._ending(""), *self._without_job()):
            with suppress(KubeError):
                self._end(pod)
        if succeed:
            for pod in self._pods("", ("Running",)):
                if program_end(pod) is None:
                    with suppress(KubeError):
                        self._report(pod, "Succeeded", code=0)

    def resume_all(self) -> None:
        """End the suspension of every job."""
        for job in self._recorder.current("TFJob"):
            if (job["spec"].get("runPolicy") or {}).get("suspend"):
                with suppress(KubeError):
                    self._patch_spec(job["metadata"]["name"], {"runPolicy": {"suspend": False}})


def _job_name(obj: Json) -> str:
    return str((obj["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name", ""))


def _is_of_tensorboard(obj: Json) -> bool:
    return TENSORBOARD_LABEL in (obj["metadata"].get("labels") or {})
