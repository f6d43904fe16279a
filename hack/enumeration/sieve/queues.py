"""Scenarios of jobs in a queue of Kueue, whose Workloads the operator drives: docs/kueue.md, as `world.kueue` acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hack.enumeration.sieve.happenings import (
    Happening,
    deletes_workload,
    labels,
    of_pod,
    respec,
    says,
    submits,
)
from hack.enumeration.world.kueue import Kueue
from hack.enumeration.world.world import Move, Scenario, World
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from hack.kubelet import unscheduled
from tfoperator.operator.options.settings import Options

Json = dict[str, Any]

_CREATE = Step(0, Act.CREATE)
_RUN = Step(0, Act.RUN, value="all")
_END = Step(0, Act.END_TERMINATING)
_SUCCEED, _LAST = Step(0, Act.SUCCEED), Step(0, Act.SUCCEED, pick=0.99)
_DELETE = Step(0, Act.DELETE_JOB, value="Background")
_WAIT = Step(3, Act.RUN, value="all")
_RUN_FIRST = Step(0, Act.RUN, pick=0)


def _kueue(act: Callable[[Kueue], object]) -> Happening:
    return lambda world: act(world.kueue)


def _with_room(world: World) -> str:
    world.kueue.has_room, world.kueue.pods = True, None
    return "there is room"


def _room_for(pods: int) -> Happening:
    """There is quota for this number of pods of each pod set."""

    def happen(world: World) -> str:
        world.kueue.has_room, world.kueue.pods = True, pods
        return f"there is room for {pods} pods of each set"

    return happen


def _without_room(world: World) -> str:
    world.kueue.has_room = False
    return "there is no room"


def _with_checks(world: World) -> str:
    world.kueue.has_room = world.kueue.checks = True
    return "there is room, and an admission check"


def _agrees(world: World) -> str:
    world.kueue.checks = False
    return "the admission check agrees"


_FLAVOR = _kueue(Kueue.make_flavor)
_PREEMPT = _kueue(Kueue.preempt)
_DEACTIVATE = _kueue(lambda kueue: kueue.set_active(False))
_ACTIVATE = _kueue(lambda kueue: kueue.set_active(True))
ADMITTED: tuple[Move, ...] = (_FLAVOR, _with_room, _CREATE, _RUN)


def _fail(code: int) -> Step:
    return Step(0, Act.FAIL, value=code)


def _scale(workers: int) -> Step:
    return Step(0, Act.SCALE, value=("Worker", workers))


def queued(name: str, job: JobShape, *moves: Move, standby: bool = False) -> Scenario:
    """Return a scenario of one job, by an operator that drives Workloads."""
    return Scenario(name, (job,), moves, Options(kueue=True), Attachments(queues=True), standby)


def _template(**spec: object) -> Json:
    return {"spec": {"containers": [{"name": "tensorflow", "image": "x"}], **spec}}


def shape(policy: str = "OnFailure", *, workers: int = 1, **more: object) -> JobShape:
    """Return a job in a queue, each of whose workers asks for a CPU."""
    return JobShape("job-0", {"Worker": workers}, policy, queue="research", cpu="1000m", **more)  # type: ignore[arg-type]


def _elastic(workers: int) -> JobShape:
    """Return an elastic job, which needs only a single worker, and soon asks for more workers or does with fewer."""
    policy = {"minReplicas": 1, "shrinkAfterSeconds": 5, "growAfterSeconds": 20}
    return shape(workers=workers, run_policy={"restartScope": "Job"}, elastic=policy)


QUEUES: tuple[Scenario, ...] = (
    queued(
        "a job in a queue succeeds", JobShape("job-0", {"PS": 1, "Worker": 1}, "Never", queue="research"), *ADMITTED,
        _SUCCEED,
    ),
    queued(
        "a job in a queue fails", shape("Never", workers=2, run_policy={"cleanPodPolicy": "All"}), *ADMITTED,
        _fail(1), _END,
    ),
    queued(
        "ends in its queue while a parameter server still runs",
        JobShape("job-0", {"PS": 1, "Worker": 1}, "Never", queue="research", run_policy={"cleanPodPolicy": "None"}),
        *ADMITTED, _LAST,
    ),
    queued(
        "waits for quota, is preempted, and runs again", shape(workers=2, success_policy="AllWorkers"), _FLAVOR,
        _CREATE, _with_room, _RUN, _LAST, _PREEMPT, _END, _with_room, _RUN, _SUCCEED,
    ),
    queued(
        "preempted, restart of the whole job", shape(workers=2, run_policy={"restartScope": "Job"}), *ADMITTED, _LAST,
        _PREEMPT, _END, _with_room, _RUN,
    ),
    queued(
        "restart of the whole job after some pods gave quota back",
        JobShape("job-0", {"PS": 1, "Worker": 2}, "ExitCode", "AllWorkers", queue="research", cpu="1000m"), *ADMITTED,
        _LAST, respec("job-0", runPolicy={"restartScope": "Job"}), _without_room, _fail(137), _END,
        says("Admitted", "insufficient unused quota", status="False"), _with_room, _RUN,
    ),
    queued(
        "restarts in its queue", shape("ExitCode"), *ADMITTED, _fail(137), _WAIT, Step(0, Act.DELETE_POD), _END,
        _RUN, _fail(137), _DEACTIVATE, _END,
    ),
    queued(
        "deactivated in its queue", shape(), *ADMITTED, _DEACTIVATE, _END, says("Admitted", "is not active"),
        _ACTIVATE, _RUN, _DEACTIVATE, _END,
    ),
    queued(
        "suspended in its queue", shape(), *ADMITTED, Step(0, Act.SUSPEND),
        says("Admitted", "is suspended", status="False"), _END, _without_room, Step(0, Act.RESUME),
        says("Suspended", "is resumed", status="False"), _with_room, _RUN,
    ),
    queued(
        "changed after its preemption", shape(workers=2, success_policy="AllWorkers"), *ADMITTED, _LAST, _PREEMPT,
        _END, _scale(3), _with_room, _RUN,
    ),
    queued(
        "a sidecar in a queue", shape(workers=2, sidecar=True, success_policy="AllWorkers"), *ADMITTED, _LAST, _WAIT,
    ),
    queued("deleted while it waits for quota", shape(), _FLAVOR, _CREATE, _DELETE),
    queued("deleted with quota, and created again", shape(), *ADMITTED, _DELETE, _CREATE, _END, _RUN),
    queued(
        "moved to another queue", shape(), _FLAVOR, _CREATE, labels("queue-name", "other"), _with_room, _RUN,
        labels("queue-name", "research"), _END, _RUN,
    ),
    queued("removed from its queue while it waits", shape(), _FLAVOR, _CREATE, labels("queue-name", None), _RUN),
    queued(
        "scaled in its queue", shape(), _FLAVOR, _CREATE, _scale(2), _with_room, _RUN, _scale(1), _END, _END,
        _RUN,
    ),
    queued(
        "an admission check", shape(), _FLAVOR, _with_checks, _CREATE,
        says("Admitted", "admission check budget is Pending", status="False"), _agrees, _RUN, _SUCCEED,
    ),
    queued("its Workload is deleted", shape(), *ADMITTED, deletes_workload, _END, _RUN),
    queued(
        "a flavor contradicts its template", shape(), _FLAVOR, _with_room,
        submits(shape(), _template(nodeSelector={"disk": "hdd"})), _WAIT,
        says("Admitted", "node selector disk would need both the value hdd and the value ssd", status="False"),
        respec("job-0", tfReplicaSpecs={"Worker": {"template": _template(nodeSelector=None)}}), _RUN,
    ),
    queued(
        "its priority is changed while it waits", shape(priority="calm"), _kueue(Kueue.make_priorities), _FLAVOR,
        _CREATE, labels("priority-class", "urgent"), _with_room, _RUN,
    ),
    queued(
        "elastic, quota for only some workers", _elastic(3), _FLAVOR, _room_for(2), _CREATE, _RUN,
        Step(25, Act.RUN, value="all"), _with_room, _WAIT, _END, _END, _WAIT, _PREEMPT, _END, _END, _END, _room_for(1),
        _RUN,
    ),
    queued(
        "elastic, gives back the quota of a worker without a node", _elastic(2), *ADMITTED[:-1],
        of_pod("job-0-worker-1", conditions=[unscheduled()]), _RUN_FIRST,
        Step(8, Act.RUN, pick=0), _END, _RUN_FIRST, Step(25, Act.RUN, pick=0), _WAIT, _END, _WAIT,
        Step(0, Act.SUSPEND), _END, _END, Step(0, Act.RESUME), _RUN,
    ),
    queued("leader change in a queue", shape(), *ADMITTED, _PREEMPT, _END, _with_room, _RUN, standby=True),
)  # fmt: skip
