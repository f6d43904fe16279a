"""The promises of docs/tfjob.md and docs/gang.md about a TensorBoard and a PodGroup, as the oracle reads them.

`AttachmentChecker` finds states that must never occur, `check_attachments` states that are wrong at the end. Both check
the objects of a job; foreign objects, which have such a name and belong to no job, must not be touched at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hack.faults.journal import Entry, Journal
from hack.faults.oracle.history import AttachmentHistory, JobHistory, Violation
from hack.faults.plan.attachments import CPU

Json = dict[str, Any]
Complain = Callable[[str, JobHistory, str], None]

_TENSORBOARD = ("Deployment", "Service")
_WAITING = (None, "", "Pending")
_VOLCANO, _KUBERNETES = "volcano", "kubernetes"
_PASSED_ON = {
    _VOLCANO: {"minResources": "minResources", "queue": "queue", "priorityClass": "priorityClassName"},
    _KUBERNETES: {"priorityClass": "priorityClassName"},
}
_PASSED_ON_TO_OTHERS = {"minResources": "minResources", "scheduleTimeoutSeconds": "scheduleTimeoutSeconds"}
"""The fields of a job's schedulingPolicy that its PodGroup has, and their names there."""


class AttachmentChecker:
    """Reads the events of attachments, and calls `complain` for what must not happen."""

    def __init__(self, gang: str, deleted_by_plan: set[str], complain: Complain) -> None:
        """`deleted_by_plan` are UIDs."""
        self._gang = gang
        self._deleted_by_plan = deleted_by_plan
        self._complain = complain

    def read(self, job: JobHistory, entry: Entry) -> None:
        """One event of one of the job's attachments."""
        attachment = job.attachments.get(entry.uid)
        if attachment is None:
            if entry.what == "DELETED":
                return
            attachment = job.attachments[entry.uid] = AttachmentHistory(entry.uid, entry.kind, entry.obj)
            if entry.what == "ADDED":  # and not adopted
                self._created(job, attachment)
        attachment.obj = entry.obj
        attachment.admitted |= (entry.obj.get("status") or {}).get("phase") not in _WAITING
        self.give_reasons(job)
        if entry.kind == "PodGroup":
            self._check_size(job, attachment)
        if entry.what == "DELETED":
            attachment.gone = True
            if not attachment.reasons and attachment.uid not in self._deleted_by_plan:
                self._complain("wrong", job, f"{_called(attachment)} was deleted without a reason")

    @staticmethod
    def give_reasons(job: JobHistory) -> None:
        """Note the actions that the operator may take from here on, as far as they follow from the job as it is now."""
        for attachment in job.attachments.values():
            if job.gone or job.obj["metadata"].get("deletionTimestamp"):
                attachment.reasons.add("job deleted")
            if attachment.kind in _TENSORBOARD and job.spec.get("tensorBoard") is None:
                attachment.reasons.add("not asked for")
            if attachment.kind == "PodGroup" and job.suspended:
                attachment.reasons.add("suspended")
            if attachment.kind == "PodGroup" and job.verdict:
                attachment.reasons.add("finished")

    def read_tensorboard_pod(self, job: JobHistory, entry: Entry) -> None:
        """One event of a pod of the job's TensorBoard: the operator has no business with it."""
        owners = {str(reference["uid"]) for reference in entry.obj["metadata"].get("ownerReferences") or ()}
        kept = any(
            attachment.uid in owners and not attachment.deleting for attachment in job.attachments_of("Deployment")
        )
        going = entry.what == "DELETED" or entry.obj["metadata"].get("deletionTimestamp")
        if going and kept and entry.uid not in self._deleted_by_plan and not job.gone:
            self._complain("wrong", job, f"pod {entry.name} of its TensorBoard was deleted")

    def check_member(self, job: JobHistory, pod: Json) -> None:
        """A pod of the job's was made: it has to be a member of the gang, if there are gangs."""
        if not self._gang:
            return
        name, metadata, scheduler = pod["metadata"]["name"], pod["metadata"], pod["spec"].get("schedulerName")
        wanted = self._gang
        if self._gang == _VOLCANO:
            group = (metadata.get("annotations") or {}).get("scheduling.k8s.io/group-name")
        elif self._gang == _KUBERNETES:
            group, wanted = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName"), "default-scheduler"
        else:
            group = (metadata.get("labels") or {}).get("scheduling.x-k8s.io/pod-group")
        if (group, scheduler) != (job.name, wanted):
            self._complain("wrong", job, f"pod {name} is in the gang {group!r} of scheduler {scheduler!r}")
        groups = [attachment for attachment in job.attachments.values() if attachment.kind == "PodGroup"]
        if not groups:
            self._complain("wrong", job, f"pod {name} was made before there was a PodGroup")
        elif self._gang == _VOLCANO and not any(pod_group.admitted for pod_group in groups):
            self._complain("wrong", job, f"pod {name} was made before Volcano had admitted a PodGroup")

    def _created(self, job: JobHistory, attachment: AttachmentHistory) -> None:
        called, is_tensorboard = _called(attachment), attachment.kind in _TENSORBOARD
        if attachment.name != (f"{job.name}-tensorboard" if is_tensorboard else job.name):
            self._complain("wrong", job, f"{called} has nothing to do with the job")
        for other in job.attachments_of(attachment.kind):
            if other is attachment:
                continue
            if other.name == attachment.name:
                other.gone = True  # the journal has missed its removal
            else:
                self._complain("doubled", job, f"it has both {_called(other)} and {called}")
        if job.managed_elsewhere:
            self._complain("wrong", job, f"{called} was made although somebody else manages the job")
        if all((spec.get("runPolicy") or {}).get("suspend") for spec in job.specs):
            self._complain("wrong", job, f"{called} was made for a job that was never to run")
        if is_tensorboard and all(spec.get("tensorBoard") is None for spec in job.specs):
            self._complain("wrong", job, f"{called} was made, and nobody asked for it")
        if attachment.kind == "PodGroup" and job.verdict:
            self._complain("doubled", job, f"{called} was made although the job has {job.verdict}")

    def _check_size(self, job: JobHistory, group: AttachmentHistory) -> None:
        members = _members(group)
        most = max(_asked(job, spec) for spec in job.specs)
        if members > most:
            self._complain("wrong", job, f"{_called(group)} asks for {members} pods, the job for {most} at most")


def check_attachments(job: JobHistory, journal: Journal) -> Iterator[Violation]:
    """Yield what is wrong at the end with the attachments of a job that exists and is not being deleted."""
    for attachment in job.attachments_of(*_TENSORBOARD, "PodGroup"):
        if attachment.deleting:
            yield Violation("stuck", job.name, f"{_called(attachment)} is being deleted and does not go")
    if job.managed_elsewhere:
        for attachment in job.attachments_of(*_TENSORBOARD, "PodGroup"):
            yield Violation("doubled", job.name, f"somebody else manages it, and it has {_called(attachment)}")
        return
    for kind, text in (*_check_tensorboard(job), *(_check_gang(job, journal) if journal.gang else ())):
        yield Violation(kind, job.name, text)


def _check_tensorboard(job: JobHistory) -> Iterator[tuple[str, str]]:
    wanted, status = job.spec.get("tensorBoard"), job.status.get("tensorBoard")
    if wanted is None:
        for attachment in job.attachments_of(*_TENSORBOARD):
            yield "stuck", f"{_called(attachment)} is left, and the job has no TensorBoard"
        if status is not None:
            yield "wrong", "its status shows a TensorBoard that the job does not have"
        return
    for kind in _TENSORBOARD:
        # A suspended TensorBoard keeps its objects, and gets no more.
        if not job.attachments_of(kind) and (job.verdict or not job.suspended):
            yield "lost", f"its TensorBoard has no {kind.lower()}"
    yield from _check_tensorboard_is_as_asked(job, wanted)
    deployments, services = job.attachments_of("Deployment"), job.attachments_of("Service")
    expected: Json = {}
    for service in services:
        expected["url"] = f"http://{service.name}.{service.obj['metadata'].get('namespace')}.svc"
        if any((deployment.obj.get("status") or {}).get("availableReplicas") for deployment in deployments):
            expected["ready"] = True
    if (status or {}) != expected:
        yield "wrong", f"its status shows {status!r} as its TensorBoard, and {expected!r} is right"


def _check_tensorboard_is_as_asked(job: JobHistory, wanted: Json) -> Iterator[tuple[str, str]]:
    for attachment in job.attachments_of("Deployment"):
        [container] = attachment.spec["template"]["spec"]["containers"]
        arguments = container.get("command") or ()
        image, named = container["image"], {(spec.get("tensorBoard") or {}).get("image") for spec in job.specs}
        # If the job names no image, the operator's options decide; it must not be an image that was named before.
        if wanted.get("image", image) != image or ("image" not in wanted and image in named):
            yield "wrong", f"its TensorBoard runs {image} and should run {wanted.get('image')}"
        if f"--logdir={wanted['logDir']}" not in arguments:
            yield "wrong", f"its TensorBoard was started as {arguments} and should read {wanted['logDir']}"
    for attachment in job.attachments_of("Service"):
        service_type = wanted.get("serviceType") or "ClusterIP"
        if attachment.spec.get("type") != service_type:
            yield "wrong", f"its TensorBoard's service is {attachment.spec.get('type')} and should be {service_type}"


def _check_gang(job: JobHistory, journal: Journal) -> Iterator[tuple[str, str]]:
    groups = job.attachments_of("PodGroup")
    if job.verdict or job.suspended:
        why = f"has {job.verdict}" if job.verdict else "is suspended"
        for group in groups:
            yield "stuck", f"{_called(group)} is left of a job that {why}"
        return
    if not groups:
        yield "lost", "it has no PodGroup"
    asked, total = _asked(job, job.spec), _total(job, job.spec)
    done = len({key for key in job.completed() | job.failed() if key[1] < job.size(key[0])})
    # Replicas that have ended need no room, but the PodGroup becomes smaller only when other replicas need no room.
    fewest = asked if asked > total else min(asked, total - done)
    policy = _policy(job.spec)
    for group in groups:
        members = _members(group)
        if not fewest <= members <= asked:
            yield "wrong", f"{_called(group)} asks for {members} pods and should for {fewest} to {asked}"
        sums = asked <= total and journal.gang != _KUBERNETES
        if sums and not any(_policy(spec).get("minResources") for spec in job.specs):
            yield from _check_sum(group, members)
        for asked_as, given_as in _PASSED_ON.get(journal.gang, _PASSED_ON_TO_OTHERS).items():
            given = group.spec.get(given_as)
            if policy.get(asked_as) is not None and given != policy[asked_as]:
                yield "wrong", f"{_called(group)} has {given_as} {given!r} and should have {policy[asked_as]!r}"


def _check_sum(group: AttachmentHistory, members: int) -> Iterator[tuple[str, str]]:
    """Check the sum where the job has never set the gang's needs: all its members request the same."""
    cpu = str((group.spec.get("minResources") or {}).get("cpu") or "0")
    millis = int(cpu.removesuffix("m")) * (1 if cpu.endswith("m") else 1000)
    if millis != members * int(CPU.removesuffix("m")):
        yield "wrong", f"{_called(group)} asks for {members} pods with cpu {cpu}, and each asks for {CPU}"


def _members(group: AttachmentHistory) -> int:
    """How many pods it asks for."""
    own = ((group.spec.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount", 0)
    return int(group.spec.get("minMember", own))


def _policy(spec: Json) -> Json:
    return (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}


def _total(job: JobHistory, spec: Json) -> int:
    return sum(job.size(kind, spec) for kind in spec["tfReplicaSpecs"])


def _asked(job: JobHistory, spec: Json) -> int:
    fewest = _policy(spec).get("minAvailable")
    return _total(job, spec) if fewest is None else int(fewest)


def _called(attachment: AttachmentHistory) -> str:
    return f"{attachment.kind.lower()} {attachment.name}"
