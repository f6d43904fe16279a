"""Journals for tests of the oracle: an API server's record of one job, written in a few words."""

from __future__ import annotations

import copy
from typing import Any

from hack.faults.journal import Entry, Journal
from hack.faults.oracle.history import Violation
from hack.faults.oracle.judge import judge

Json = dict[str, Any]

LABEL = "training.kubeflow.org/"


class Story:
    """One job `job` (UID `j`) and its objects. Each method is one or more events; `status` is the operator's."""

    def __init__(self, policy: str = "OnFailure", spec: Json | None = None, **replicas: int) -> None:
        self.journal = Journal(
            entries=[],
            deleted_by_plan=set(),
            jobs_deleted_by_plan=set(),
            foreign_objects=set(),
            orphaned=set(),
            gaps=[],
            texts=False,
        )
        self._version = 100
        self._objects: dict[str, Json] = {}
        specs = {
            kind: {"replicas": count, "restartPolicy": policy} for kind, count in (replicas or {"Worker": 1}).items()
        }
        job = {"kind": "TFJob", "metadata": {"name": "job", "uid": "j", "generation": 1}, "status": {}}
        self._put({**job, "spec": {"tfReplicaSpecs": specs, "runPolicy": {}, **(spec or {})}}, "ADDED")

    def _put(self, obj: Json, what: str = "MODIFIED") -> None:
        self._version += 1
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(self._version)
        uid = obj["metadata"]["uid"]
        self.journal.entries.append(Entry(self._version, obj["kind"], what, obj))
        if what == "DELETED":
            self._objects.pop(uid, None)
        else:
            self._objects[uid] = obj

    def _change(self, uid: str, **members: Json) -> Story:
        """These members of an object have changed."""
        self._put({**self._objects[uid], **members})
        return self

    # Actions of users, kubelets and the operator.

    def spec(self, **change: Any) -> Story:
        job = copy.deepcopy(self._objects["j"])
        for kind, count in change.pop("replicas", {}).items():
            job["spec"]["tfReplicaSpecs"][kind]["replicas"] = count
        job["spec"]["runPolicy"] |= change.pop("runPolicy", {})
        job["spec"] |= change
        job["metadata"]["generation"] += 1
        self._put(job)
        return self

    def status(self, *conditions: str, job_restarts: int = 0, **replicas: Json) -> Story:
        """Write the status as the operator does: conditions, and members per type (counted up where it is obvious)."""
        job = copy.deepcopy(self._objects["j"])
        listed = [
            {"type": condition.lstrip("-"), "status": "False" if condition[0] == "-" else "True"}
            for condition in conditions
        ]
        total = sum(replica_spec["replicas"] for replica_spec in job["spec"]["tfReplicaSpecs"].values())
        ready = sum(replica.get("ready", replica.get("active", 0)) for replica in replicas.values())
        ended = next((condition for condition in conditions if condition in ("Succeeded", "Failed")), "")
        job["status"] = {
            "conditions": [{"type": "Created", "status": "True"}, *listed],
            "replicaStatuses": {
                kind: {**counts, "ready": counts.get("ready", counts.get("active", 0))}
                for kind, counts in replicas.items()
            },
            "jobRestarts": job_restarts,
            "restarts": job_restarts
            + sum(sum(replica.get("restartCounts", {}).values()) for replica in replicas.values()),
            "disruptions": sum(sum(replica.get("disruptionCounts", {}).values()) for replica in replicas.values()),
            "ready": f"{ready}/{total}",
            "phase": ended or ("Running" if "Running" in conditions else "Pending"),
            "startTime": "2026-01-01T00:00:00Z",
            "observedGeneration": job["metadata"]["generation"],
        }
        if ended:
            job["status"]["completionTime"] = "2026-01-01T00:01:00Z"
        self._put(job)
        return self

    def pod(
        self,
        name: str,
        uid: str,
        restarts: int = 0,
        *,
        number: int = 0,
        phase: str = "Pending",
        spec: Json | None = None,
    ) -> Story:
        """A pod is made, after so many restarts of its replica, and `number` of all together."""
        pod = self._dependent("Pod", name, uid, restarts)
        pod["spec"] = spec or {}
        pod["metadata"]["annotations"][f"{LABEL}job-restarts"] = str(number)
        self._put(pod, "ADDED")
        return self if phase == "Pending" else self.phase(uid, phase)

    def service(self, name: str) -> Story:
        self._put(self._dependent("Service", name, f"service-{name}", 0), "ADDED")
        return self

    def job_service(self, name: str = "job") -> Story:
        """A service of all replicas is made; its UID is its name."""
        service = self._dependent("Service", "none-0", name, 0)
        service["metadata"] |= {"name": name, "labels": {f"{LABEL}job-name": "job"}}
        self._put(service, "ADDED")
        return self

    def attach(
        self, kind: str, uid: str, name: str = "", *, owner: str = "j", status: Json | None = None, **spec: Any
    ) -> Story:
        """An attachment is made: of the TensorBoard, or a PodGroup; without an owner, a foreign object."""
        name = name or ("job" if kind == "PodGroup" else "job-tensorboard")
        metadata: Json = {"name": name, "namespace": "ns", "uid": uid}
        if owner:
            metadata["labels"] = {f"{LABEL}job-name": "job"}
            metadata["ownerReferences"] = [{"uid": owner, "controller": True, "kind": "TFJob", "name": "job"}]
        else:
            self.journal.foreign_objects.add(uid)
        self._put({"kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}, "ADDED")
        return self

    def respec(self, uid: str, **spec: Any) -> Story:
        """Somebody changes the spec of an attachment."""
        return self._change(uid, spec={**self._objects[uid]["spec"], **spec})

    def stop(self, uid: str) -> Story:
        """The operator gives a pod a deadline."""
        return self._change(uid, spec={"activeDeadlineSeconds": 1})

    def disown(self, uid: str, owner: str = "") -> Story:
        """A user takes the owner off something, or a job takes it into its care."""
        owners = [{"uid": owner, "controller": True}] if owner else []
        return self._change(uid, metadata={**self._objects[uid]["metadata"], "ownerReferences": owners})

    def report(self, uid: str, **status: Any) -> Story:
        """Somebody writes some of the status of an attachment or of the job."""
        return self._change(uid, status={**self._objects[uid]["status"], **status})

    def phase(self, uid: str, phase: str, code: int | None = None, *, restarts: int = 0, reason: str = "") -> Story:
        state = {} if code is None else {"terminated": {"exitCode": code}}
        container = {"name": "tensorflow", "restartCount": restarts, "state": state}
        return self._change(uid, status={"phase": phase, "reason": reason, "containerStatuses": [container]})

    def program_ends(self, uid: str, code: int) -> Story:
        """The program of a pod ends, and its sidecar runs on."""
        ended = {"name": "tensorflow", "state": {"terminated": {"exitCode": code}}}
        beside = {"name": "sidecar", "state": {"running": {}}}
        self._change(uid, spec={"restartPolicy": "Never"})
        return self._change(uid, status={"phase": "Running", "containerStatuses": [beside, ended]})

    def sidecar_ends(self, uid: str) -> Story:
        """The kubelet has stopped what was left of a pod."""
        status = self._objects[uid]["status"]
        return self._change(uid, status={**status, "phase": "Failed", "reason": "DeadlineExceeded"})

    def take(self, uid: str) -> Story:
        """The plan deletes a pod or service."""
        self.journal.deleted_by_plan.add(uid)
        return self.remove(uid)

    def remove(self, uid: str) -> Story:
        """The operator does, or the garbage collector."""
        self._put(self._objects[uid], "DELETED")
        return self

    def terminate(self, uid: str) -> Story:
        metadata = {**self._objects[uid]["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
        return self._change(uid, metadata=metadata)

    def running(self, *names: str) -> Story:
        """Each of these replicas has a service and a pod that runs; its UID is its name."""
        for name in names:
            self.service(name).pod(name, name, phase="Running")
        return self

    # The oracle's judgement.

    def never(self) -> list[str]:
        return [str(violation) for violation in judge(self.journal)[0]]

    def end(self, *, finished: bool = False) -> list[Violation]:
        never, end = judge(self.journal, finished=finished)
        assert never == []
        return end

    def kinds(self) -> set[str]:
        return {violation.kind for violation in self.end()}

    def _dependent(self, kind: str, name: str, uid: str, restarts: int) -> Json:
        replica_type, _, index = name.rpartition("-")
        labels = {f"{LABEL}replica-type": replica_type, f"{LABEL}replica-index": index, f"{LABEL}job-name": "job"}
        owner = {"uid": "j", "controller": True, "kind": "TFJob", "name": "job"}
        metadata = {"name": f"job-{name}", "uid": uid, "labels": labels, "ownerReferences": [owner]}
        metadata["annotations"] = {f"{LABEL}restarts": str(restarts)}
        return {"kind": kind, "metadata": metadata, "status": {}}
