"""The histories of jobs, pods and services, and what they account for.

This is written from what a TFJob means (docs, the Go operator's rules), not from the operator's code, and knows none of
its modules: two different mistakes would have to agree to hide each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
ReplicaKey = tuple[str, int]

CHIEFS = ("Chief", "Master")


@dataclass(frozen=True)
class Violation:
    """Something that the history does not allow. `kind` is lost, doubled, wrong or stuck."""

    kind: str
    job: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.job}: {self.text}"


@dataclass
class PodHistory:
    """One pod, from its creation to its removal, and what it accounts for."""

    uid: str
    name: str
    replica: ReplicaKey
    base: int
    number: int = 0
    """How often all replicas of its job had been restarted together when it was made."""
    is_probe: bool = False
    """Whether the pod only shows whether a node has room: a kubelet never starts its program."""
    phase: str = "Pending"
    node: str = ""
    in_place: int = 0
    noted_in_place: int = 0
    """How many of these the job's status had counted."""
    silent: bool = False
    """Whether its status contains no container: then nobody can know a restart that no job's status has counted."""
    exit_code: int | None = None
    infrastructure: bool = False
    deleting: bool = False
    gone: bool = False
    deleted_by_plan: bool = False
    replaced: bool = False
    """Whether its replica has had another pod since."""
    started: bool = False
    """Whether the job's status showed, when the pod was taken, that the replica had started, and with this very pod."""
    ended_well: bool = False
    ended_before_deletion: bool = False
    """Whether it had failed when its deletion was first seen."""
    disruptions: int = 0
    """How many of the restarts before it followed on disruptions, by its annotation."""
    stopped: bool = False
    """Whether it was given a deadline."""
    runs_on: bool = False
    """Whether its program has ended, and a sidecar runs on; `phase` is the program's phase then, and later."""
    reasons: set[str] = field(default_factory=set)
    """Why the operator may delete it."""

    @property
    def proven_in_place(self) -> int:
        """How many restarts in place the operator must count."""
        return self.noted_in_place if self.silent else self.in_place

    def lost(self, policy: str) -> bool:
        """Whether its end may count as a restart."""
        return self.deleted_by_plan or bool({"stalled", "moved"} & self.reasons) or self.failed_retryably(policy)

    @property
    def is_taken(self) -> bool:
        """Whether it may count as taken from its job."""
        return self.deleted_by_plan or (self.phase in ("Failed", "Unknown") and self.infrastructure)

    def failed(self, policy: str) -> bool:
        """Whether it may count as a failure of its job: not if it was taken, unless it had failed before."""
        if {"stalled", "moved"} & self.reasons:
            return True
        if self.infrastructure or (self.deleted_by_plan and not self.ended_before_deletion):
            return False
        return self.failed_retryably(policy)

    def failed_retryably(self, policy: str) -> bool:
        """Whether it failed, and its replica is to be started again."""
        return self.phase in ("Failed", "Unknown") and not self.failed_for_good(policy)

    def failed_for_good(self, policy: str) -> bool:
        """Whether its replica has failed, and with it the job unless workers may come and go."""
        if self.phase != "Failed" or self.infrastructure:
            return False
        return policy == "Never" or (policy == "ExitCode" and self.exit_code is not None and self.exit_code < 128)


@dataclass
class ServiceHistory:
    """One service: of a replica, or (None) of all replicas of its job."""

    uid: str
    name: str
    replica: ReplicaKey | None
    gone: bool = False
    reasons: set[str] = field(default_factory=set)


@dataclass
class AttachmentHistory:
    """An attachment of a job: its TensorBoard's Deployment or Service, its PodGroup or its Workload."""

    uid: str
    kind: str
    obj: Json
    gone: bool = False
    admitted: bool = False
    """Whether a gang scheduler has ever let this PodGroup's pods be made."""
    reasons: set[str] = field(default_factory=set)
    """Why the operator may delete it."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.obj["metadata"]["name"])

    @property
    def spec(self) -> Json:
        """Its spec."""
        return dict(self.obj.get("spec") or {})

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return bool(self.obj["metadata"].get("deletionTimestamp"))


def conditions_in(status: Mapping[str, Any]) -> list[Json]:
    """All conditions of a status: the Go operator's, and ours."""
    return [*(status.get("operatorConditions") or ()), *(status.get("conditions") or ())]


def true_conditions(status: Mapping[str, Any]) -> dict[str, Json]:
    """The conditions of a status that are true, by type."""
    return {condition["type"]: condition for condition in conditions_in(status) if condition["status"] == "True"}


class JobHistory:
    """One job (of one UID), the latest version of it and everything it had."""

    def __init__(self, obj: Json) -> None:
        self.uid = str(obj["metadata"]["uid"])
        self.name = str(obj["metadata"]["name"])
        self.obj = obj
        self.gone = False
        self.pods: dict[str, PodHistory] = {}
        self.services: dict[str, ServiceHistory] = {}
        self.attachments: dict[str, AttachmentHistory] = {}
        self.specs: list[Json] = []
        self.verdict = ""
        self.peer_conditions: list[Json] = []
        """The conditions that it would have now with the Go operator."""
        self.network = ""
        """The network that its first object was made for; empty before its first object."""
        self.changes_at_admission = 0
        """How many changes of the number of its workers came with an admission, so that nothing restarted."""

    @property
    def spec(self) -> Json:
        """Its spec now."""
        return dict(self.obj["spec"])

    @property
    def run_policy(self) -> Json:
        """Its run policy now."""
        return dict(self.spec.get("runPolicy") or {})

    @property
    def status(self) -> Json:
        """Its status now."""
        return dict(self.obj.get("status") or {})

    @property
    def suspended(self) -> bool:
        """Whether it is to be suspended now."""
        return bool(self.run_policy.get("suspend"))

    @property
    def clean_policy(self) -> str:
        """Return its cleanPodPolicy; empty: running programs are stopped, and pods that have run are not deleted."""
        return str(self.run_policy.get("cleanPodPolicy") or "")

    @property
    def stopped_by_limit(self) -> bool:
        """Whether a limit has ended it: too many restarts, or too much time."""
        failed = self.conditions().get("Failed", {})
        why = f"{failed.get('reason')} {failed.get('message')}"
        limited = any(text in why for text in ("ProgressDeadlineExceeded", "backoff limit", "active longer"))
        return failed.get("status") == "True" and limited

    @property
    def stops_programs(self) -> bool:
        """Whether what runs is stopped at its end: without a policy, and under None if a limit has ended the job."""
        return not self.clean_policy or (self.clean_policy == "None" and self.stopped_by_limit)

    @property
    def together(self) -> bool:
        """Whether all replicas restart when one has to."""
        return self.run_policy.get("restartScope") == "Job"

    def has_had_scope(self, scope: str) -> bool:
        """Whether `restartScope`, which may change at any time, has ever had this effect."""
        scopes = ((spec.get("runPolicy") or {}).get("restartScope") or "Replica" for spec in self.specs)
        return scope in scopes

    @property
    def job_restarts(self) -> int:
        """Return how often all replicas have been restarted together, according to the status."""
        return int(self.status.get("jobRestarts", 0))

    @property
    def managed_elsewhere(self) -> bool:
        """Whether somebody else manages it."""
        return self.run_policy.get("managedBy") not in (None, "", "kubeflow.org/training-operator")

    @property
    def restarts_when_stalled(self) -> bool:
        """Whether what runs may be restarted now, because the job makes no progress."""
        policy = self.run_policy
        return policy.get("onStall") == "Restart" and self.holds("Stalled") and "progressDeadlineSeconds" in policy

    def size(self, kind: str, spec: Json | None = None) -> int:
        """How many replicas of a type it is to have: of an elastic job's workers, as many as its status records."""
        replicas = (spec or self.spec)["tfReplicaSpecs"].get(kind)
        wanted = 0 if replicas is None else int(replicas.get("replicas", 1))
        elastic = self.status.get("elastic") or {}
        return int(elastic.get("workers") or wanted) if kind == "Worker" and elastic else wanted

    def policy(self, kind: str) -> str:
        """The restart policy of a type."""
        return str(self.spec["tfReplicaSpecs"].get(kind, {}).get("restartPolicy", "Never"))

    def conditions(self) -> dict[str, Json]:
        """Its conditions by type."""
        return {condition["type"]: condition for condition in conditions_in(self.status)}

    def holds(self, condition: str) -> bool:
        """Whether a condition is true."""
        return self.conditions().get(condition, {}).get("status") == "True"

    @property
    def has_released_all(self) -> bool:
        """Whether it is suspended, or waits in its queue, according to its status."""
        return self.holds("Suspended") or self.conditions().get("Admitted", {}).get("status") == "False"

    def living(self, key: ReplicaKey | None = None) -> list[PodHistory]:
        """The pods that are there, of one replica or of all."""
        return [pod for pod in self.pods.values() if not pod.gone and key in (None, pod.replica)]

    def attachments_of(self, *kinds: str) -> list[AttachmentHistory]:
        """Its attachments of these kinds that exist."""
        return [
            attachment for attachment in self.attachments.values() if attachment.kind in kinds and not attachment.gone
        ]

    def counts(self) -> dict[ReplicaKey, int]:
        """Return the restarts that the status counts, by replica."""
        return {
            (kind, int(index)): int(count)
            for kind, status in (self.status.get("replicaStatuses") or {}).items()
            for index, count in (status.get("restartCounts") or {}).items()
        }

    def completed(self) -> set[ReplicaKey]:
        """Return the replicas that have completed, according to the status."""
        return self._index_set("completedIndexes")

    def failed(self) -> set[ReplicaKey]:
        """Return the replicas that have failed for good, according to the status."""
        return self._index_set("failedIndexes")

    def started(self) -> set[ReplicaKey]:
        """Return the replicas that have started, according to the status."""
        return self._index_set("startedIndexes")

    def most_restarts(self, key: ReplicaKey) -> int:
        """How many restarts of a replica its history can account for."""
        policy = self.policy(key[0])
        pods = [pod for pod in self.pods.values() if pod.replica == key]
        return sum((pod.lost(policy) and self.has_had_scope("Replica")) + pod.in_place for pod in pods)

    def disruptions(self) -> dict[ReplicaKey, int]:
        """How many of the restarts followed on disruptions, by the status, for each replica."""
        return {
            (kind, int(index)): int(count)
            for kind, status in (self.status.get("replicaStatuses") or {}).items()
            for index, count in (status.get("disruptionCounts") or {}).items()
        }

    @property
    def failures(self) -> int:
        """How many failures precede the restarts, by the status: the restarts for one stall have one in common."""
        others = ("disruptions", "sharedRestarts")
        return int(self.status.get("restarts", 0)) - sum(int(self.status.get(name, 0)) for name in others)

    def most_disruptions(self, key: ReplicaKey) -> int:
        """How many disruptions of a replica its history can account for, where replicas restart one by one."""
        taken = sum(pod.is_taken for pod in self.pods.values() if pod.replica == key)
        return taken if self.has_had_scope("Replica") else 0

    def most_failures(self) -> int:
        """How many failures of the job its history can account for: of all together one for each of their restarts."""
        failed = [pod for pod in self.pods.values() if pod.failed(self.policy(pod.replica[0]))]
        in_place = sum(pod.in_place for pod in self.pods.values())
        if not self.has_had_scope("Replica"):
            return in_place + len({pod.number for pod in failed})
        return in_place + len(failed)

    def most_job_restarts(self) -> int:
        """Return how many restarts of all replicas its history can account for.

        A loss, or a change of the number of an elastic job's workers, precedes each restart.
        """
        lost = {pod.number for pod in self.pods.values() if pod.lost(self.policy(pod.replica[0]))}
        changes = int((self.status.get("elastic") or {}).get("changes") or 0) - self.changes_at_admission
        without = (number for number in itertools.count() if not self.has_had_scope("Job") or number not in lost)
        return next(itertools.islice(without, max(changes, 0), None))

    def fewest_job_restarts(self) -> int:
        """How many restarts of all replicas its history proves."""
        if self.has_had_scope("Replica"):
            return 0
        return max((pod.number + 1 for pod in self.pods.values() if pod.gone and self._is_proven_loss(pod)), default=0)

    def fewest_restarts(self, key: ReplicaKey) -> int:
        """How many restarts of a replica its history proves. A loss that coincides with other changes proves none."""
        total = 0
        for pod in self.pods.values():
            if pod.replica != key:
                continue
            if not pod.gone:
                total += 0 if pod.reasons else pod.proven_in_place
            elif self._is_proven_loss(pod) and not self.has_had_scope("Job"):
                total += 1 + (0 if pod.deleted_by_plan else pod.proven_in_place)
        return total

    def _is_proven_loss(self, pod: PodHistory) -> bool:
        if pod.reasons - {"failed"} or pod.ended_well:
            return False
        if pod.deleted_by_plan:
            return pod.started and pod.phase != "Failed"
        return pod.failed_retryably(self.policy(pod.replica[0]))

    def _index_set(self, field_name: str) -> set[ReplicaKey]:
        return {
            (kind, index)
            for kind, status in (self.status.get("replicaStatuses") or {}).items()
            for index in indexes(status.get(field_name) or "")
        }


def indexes(text: str) -> Iterator[int]:
    """Reads `0,2-5`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
