"""Deletes a job at one moment of a scenario, and checks that soon nothing of it is left.

The watches of an operator are independent. So after the deletion the watches of some kinds are late, and after each
event the operator does all the work that it causes before the next event is shown: whatever the operator makes of one
event alone, it makes here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hack.enumeration.world.fault import EVERY_KIND, Fault
from hack.faults.oracle.history import Violation
from hack.faults.plan.steps import Act, Step
from tfoperator.api.kueue.queues import REPLACES_ANNOTATION
from tfoperator.kube.protocol.resources import PODS

if TYPE_CHECKING:
    from hack.enumeration.world.world import World

Json = dict[str, Any]

SECONDS = 10.0
"""This many seconds after the end of the job's last pod, no object of the job may be left. The second double check
comes later, so it can't help.
"""

_PAUSE_BETWEEN_EVENTS = 0.3
"""Seconds, more than the operator gathers events for."""

_JOB_UID, _WORKLOAD = "kueue.x-k8s.io/job-uid", "kueue.x-k8s.io/workload"
_NAME_TAKEN = "NameTaken"
_ORPHANED = ("Pod", "Service", "Deployment", "PodGroup", "Workload")


class DeletedJob:
    """The deletion that a fault describes, of the first job of a world. For one thread."""

    def __init__(self, world: World, fault: Fault) -> None:
        self._world = world
        self._fault = fault
        self._uid = ""
        self._shown = 0
        self._waits = True  # for so many events that the fault comes to its second part
        self._left_since: float | None = None
        self._told = False

    def happens(self) -> bool:
        """Delete the job if the moment has come, or make it again when its name is free; whether something was done."""
        world, fault = self._world, self._fault
        if world.result.happened:
            self._note_orphans()
            return self._make_again()
        if world.server.store.revision < fault.revision:
            return False
        world.result.happened = True
        jobs = world.recorder.current("TFJob")
        if not jobs:
            return False  # the scenario has deleted it
        self._uid = str(jobs[0]["metadata"]["uid"])
        self._note_orphans()
        result = world.act(Step(0, Act.DELETE_JOB, value=fault.policy or "Background"))
        world.said.append(f"{world.clock.monotonic():.1f} s {fault}: {result}")
        if fault.late_kinds:
            world.hold(*fault.late_kinds)
        for operator in world.operators:
            operator.pause_between_events = _PAUSE_BETWEEN_EVENTS
            operator.shown = self._count
        return True

    def _note_orphans(self) -> None:
        """Note what the job has, some of which it may have got since it was deleted, as taken from it by a user."""
        if self._fault.policy == "Orphan":
            metadata = (obj["metadata"] for kind in _ORPHANED for obj in self._world.recorder.current(kind))
            owned = (
                meta for meta in metadata if self._uid in (each["uid"] for each in meta.get("ownerReferences") or ())
            )
            self._world.simulator.interventions.orphaned.update(str(meta["uid"]) for meta in owned)

    def make_room(self) -> None:
        """Delete each orphaned pod that has a name that a later job needs, if the status of the later job names it.

        A user follows the `nextStep` of the status in this way. If the status does not name the pod, the pod stays, the
        later job never gets a pod of this name, and the oracle reports a lost replica.
        """
        orphaned = self._world.simulator.interventions.orphaned
        taken = [
            reason["message"]
            for job in self._world.recorder.current("TFJob")
            for reason in (job.get("status") or {}).get("waiting") or ()
            if reason["reason"] == _NAME_TAKEN
        ]
        for pod in self._world.recorder.current("Pod") if taken else ():
            meta = pod["metadata"]
            named = any(f"Pod {meta['namespace']}/{meta['name']} " in message for message in taken)
            if named and meta["uid"] in orphaned and not meta.get("deletionTimestamp"):
                self._world.simulator.interventions.deleted_by_plan.add(meta["uid"])
                self._world.client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])

    def _make_again(self) -> bool:
        again = self._fault.again and not self._world.recorder.current("TFJob")
        if again:
            self._fault = Fault()
            self._world.act(Step(0, Act.CREATE))
        return again

    def _count(self, kind: str) -> None:
        self._shown += kind not in self._fault.late_kinds
        if not self._waits or self._shown < self._fault.at:
            return
        self._waits = False
        if self._fault.kind == EVERY_KIND:
            self._world.kill()
        else:
            self._world.release()

    # The remains.

    def late(self) -> Iterator[Violation]:
        """Yield, once, objects of the job that are left although they have not been needed for long."""
        world = self._world
        names = [] if not world.result.happened or self._told else list(self._left())
        if not names or not world.shows_all or not world.operators:
            self._left_since = None
            return
        now = world.clock.monotonic()
        if self._left_since is None:
            self._left_since = now
        elif now - self._left_since > SECONDS:
            self._told = True
            text = f"{', '.join(names)} of a deleted job is left {now - self._left_since:.0f} s after its last pod"
            yield Violation("stuck", "-", text)

    def _left(self) -> Iterator[str]:
        """Yield the names of the job's Workloads, if the job and its pods are gone."""
        world = self._world
        if any(job["metadata"]["uid"] == self._uid for job in world.recorder.current("TFJob")):
            return
        running = [
            pod for pod in world.recorder.current("Pod") if pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        for workload in world.recorder.current("Workload"):
            meta = workload["metadata"]
            if meta["labels"][_JOB_UID] == self._uid and not any(_is_of(pod, self._uid, meta) for pod in running):
                yield f"Workload {meta['name']}"

    def remembered(self) -> Iterator[Violation]:
        """Yield entries that operators still have for the job in the end: none may be left, unless its pods run on."""
        workloads = self._world.recorder.current("Workload")
        runs_on = any(workload["metadata"]["labels"][_JOB_UID] == self._uid for workload in workloads)
        for operator in self._world.operators if self._uid and not runs_on else ():
            if places := operator.remembers(self._uid):
                yield Violation("stuck", "-", f"the operator remembers a deleted job: {', '.join(places[:3])}")


def _is_of(pod: Json, uid: str, workload: Json) -> bool:
    meta = pod["metadata"]
    owners = {reference["uid"] for reference in meta.get("ownerReferences") or ()}
    replaced = str((workload.get("annotations") or {}).get(REPLACES_ANNOTATION) or "").rpartition("/")[2]
    names = {workload["name"], replaced} - {""}
    return uid in owners or (meta.get("annotations") or {}).get(_WORKLOAD) in names
