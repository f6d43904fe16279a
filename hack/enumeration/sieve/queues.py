"""Scenarios of jobs in a queue of Kueue, whose Workloads the operator drives: docs/kueue.md, as `world.kueue` acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hack.enumeration.sieve.happenings import Happening, deletes_workload, labels, respec, says, submits
from hack.enumeration.world.kueue import Kueue
from hack.enumeration.world.world import Move, Scenario, World
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from tfoperator.operator.options.settings import Options

Json = dict[str, Any]

_CREATE = Step(0, Act.CREATE)
_RUN = Step(0, Act.RUN, value="all")
_END = Step(0, Act.END_TERMINATING)
_SUCCEED, _LAST = Step(0, Act.SUCCEED), Step(0, Act.SUCCEED, pick=0.99)
_DELETE = Step(0, Act.DELETE_JOB, value="Background")
_WAIT = Step(3, Act.RUN, value="all")


def _kueue(act: Callable[[Kueue], object]) -> Happening:
    return lambda world: act(world.kueue)


def _with_room(world: World) -> str:
    world.kueue.has_room = True
    return "there is room"


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
_ADMITTED: tuple[Move, ...] = (_FLAVOR, _with_room, _CREATE, _RUN)


def _fail(code: int) -> Step:
    return Step(0, Act.FAIL, value=code)


def _scale(workers: int) -> Step:
    return Step(0, Act.SCALE, value=("Worker", workers))


def _queued(name: str, shape: JobShape, *moves: Move, standby: bool = False) -> Scenario:
    return Scenario(name, (shape,), moves, Options(kueue=True), Attachments(queues=True), standby)


def _template(**spec: object) -> Json:
    return {"spec": {"containers": [{"name": "tensorflow", "image": "x"}], **spec}}


def _shape(policy: str = "OnFailure", *, workers: int = 1, **more: object) -> JobShape:
    return JobShape("job-0", {"Worker": workers}, policy, queue="research", cpu="1000m", **more)  # type: ignore[arg-type]


QUEUES: tuple[Scenario, ...] = (
    _queued(
        "a job in a queue succeeds", JobShape("job-0", {"PS": 1, "Worker": 1}, "Never", queue="research"), *_ADMITTED,
        _SUCCEED,
    ),
    _queued(
        "a job in a queue fails", _shape("Never", workers=2, run_policy={"cleanPodPolicy": "All"}), *_ADMITTED,
        _fail(1), _END,
    ),
    _queued(
        "ends in its queue while a server runs on",
        JobShape("job-0", {"PS": 1, "Worker": 1}, "Never", queue="research", run_policy={"cleanPodPolicy": "None"}),
        *_ADMITTED, _LAST,
    ),
    _queued(
        "waits, is preempted and comes back", _shape(workers=2, success_policy="AllWorkers"), _FLAVOR, _CREATE,
        _with_room, _RUN, _LAST, _PREEMPT, _END, _with_room, _RUN, _SUCCEED,
    ),
    _queued(
        "preempted, and all begin anew", _shape(workers=2, run_policy={"restartScope": "Job"}), *_ADMITTED, _LAST,
        _PREEMPT, _END, _with_room, _RUN,
    ),
    _queued(
        "restarts in its queue", _shape("ExitCode"), *_ADMITTED, _fail(137), _WAIT, Step(0, Act.DELETE_POD), _END,
        _RUN, _fail(137), _DEACTIVATE, _END,
    ),
    _queued(
        "deactivated in its queue", _shape(), *_ADMITTED, _DEACTIVATE, _END, says("Admitted", "is not active"),
        _ACTIVATE, _RUN, _DEACTIVATE, _END,
    ),
    _queued(
        "suspended in its queue", _shape(), *_ADMITTED, Step(0, Act.SUSPEND),
        says("Admitted", "is suspended", status="False"), _END, _without_room, Step(0, Act.RESUME),
        says("Suspended", "is resumed", status="False"), _with_room, _RUN,
    ),
    _queued(
        "changed after its preemption", _shape(workers=2, success_policy="AllWorkers"), *_ADMITTED, _LAST, _PREEMPT,
        _END, _scale(3), _with_room, _RUN,
    ),
    _queued(
        "a sidecar in a queue", _shape(workers=2, sidecar=True, success_policy="AllWorkers"), *_ADMITTED, _LAST, _WAIT,
    ),
    _queued("deleted while it waits for quota", _shape(), _FLAVOR, _CREATE, _DELETE),
    _queued("deleted with its quota, and made again", _shape(), *_ADMITTED, _DELETE, _CREATE, _END, _RUN),
    _queued(
        "goes to another queue", _shape(), _FLAVOR, _CREATE, labels("queue-name", "other"), _with_room, _RUN,
        labels("queue-name", "research"), _END, _RUN,
    ),
    _queued("leaves its queue while it waits", _shape(), _FLAVOR, _CREATE, labels("queue-name", None), _RUN),
    _queued(
        "scaled in its queue", _shape(), _FLAVOR, _CREATE, _scale(2), _with_room, _RUN, _scale(1), _END, _END,
        _RUN,
    ),
    _queued(
        "an admission check", _shape(), _FLAVOR, _with_checks, _CREATE,
        says("Admitted", "admission check budget is Pending", status="False"), _agrees, _RUN, _SUCCEED,
    ),
    _queued("its Workload is deleted", _shape(), *_ADMITTED, deletes_workload, _END, _RUN),
    _queued(
        "a flavor contradicts its template", _shape(), _FLAVOR, _with_room,
        submits(_shape(), _template(nodeSelector={"disk": "hdd"})), _WAIT,
        says("Admitted", "node selector disk would be both hdd and ssd", status="False"),
        respec("job-0", tfReplicaSpecs={"Worker": {"template": _template(nodeSelector=None)}}), _RUN,
    ),
    _queued(
        "its priority is changed while it waits", _shape(priority="calm"), _kueue(Kueue.make_priorities), _FLAVOR,
        _CREATE, labels("priority-class", "urgent"), _with_room, _RUN,
    ),
    _queued("leader change in a queue", _shape(), *_ADMITTED, _PREEMPT, _END, _with_room, _RUN, standby=True),
)  # fmt: skip
