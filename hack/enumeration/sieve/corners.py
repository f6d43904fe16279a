"""Scenarios that mutation testing asked for: rules of the plan to which no other scenario comes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hack.enumeration.world.world import Move, Scenario, World
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from tfoperator.operator.options.settings import Options

_CREATE = Step(0, Act.CREATE)
_RUN = Step(0, Act.RUN, value="all")
_FIRST, _LAST = Step(0, Act.SUCCEED), Step(0, Act.SUCCEED, pick=0.99)
_WAIT = Step(3, Act.RUN, value="all")
_CPU = "250m"
_CLEANS_ALL = {"cleanPodPolicy": "All"}


def _corner(
    name: str,
    policy: str,
    replicas: dict[str, int],
    *moves: Move,
    options: Options | None = None,
    attachments: Attachments | None = None,
    **more: Any,
) -> Scenario:
    shape = JobShape("job-0", replicas, policy, **more)
    return Scenario(name, (shape,), (_CREATE, *moves), options or Options(), attachments or Attachments())


def _fail(code: int, pick: float = 0.0) -> Step:
    return Step(0, Act.FAIL, pick=pick, value=code)


def _scale(kind: str, replicas: int) -> Step:
    return Step(0, Act.SCALE, value=(kind, replicas))


def _has_stalled(world: World) -> str:
    """What a job must have come to that runs and is silent for more than twice its deadline. Raises RuntimeError."""
    [job] = world.recorder.current("TFJob")
    status = job["status"]
    since = {one["type"]: one["lastTransitionTime"] for one in status["conditions"] if one["status"] == "True"}
    runs = "Ready" in since and world.clock.now() - datetime.fromisoformat(since["Ready"]) > timedelta(minutes=1)
    if runs and "Stalled" not in since and not status.get("restarts"):
        raise RuntimeError("a job that runs and is silent for more than twice its deadline has not stalled")
    return "as it has to be"


CORNERS: tuple[Scenario, ...] = (
    _corner("AllWorkers", "Never", {"Worker": 3}, _RUN, _FIRST, _LAST, _LAST, success_policy="AllWorkers"),
    _corner(
        "AllWorkers, and one may fail", "Never", {"Worker": 3}, _RUN, _fail(1), _FIRST, _LAST,
        success_policy="AllWorkers", max_failed=1,
    ),
    _corner(
        "AllWorkers, and all may fail", "Never", {"Worker": 2}, _RUN, _fail(1), _fail(1), success_policy="AllWorkers",
        max_failed="100%",
    ),
    _corner("the leader fails", "Never", {"Worker": 3}, _RUN, _fail(1, 0.99), _fail(1), max_failed=2),
    _corner("half of the workers", "Never", {"Chief": 1, "Worker": 4}, _RUN, _LAST, _LAST, min_succeeded="50%"),
    _corner("too few workers are left", "Never", {"Worker": 3}, _RUN, _fail(1), _fail(1), min_succeeded=2),
    _corner("dynamic", "Never", {"PS": 1, "Worker": 3}, _RUN, _fail(1, 0.99), _fail(1, 0.5), dynamic=True, cpu=_CPU),
    _corner("PS alone", "Never", {"PS": 2}, _RUN, _FIRST, _LAST, cpu=_CPU),
    _corner(
        "scaled to nothing", "OnFailure", {"PS": 1, "Worker": 1}, _RUN, _scale("Worker", 0), _scale("Worker", 1),
        cpu=_CPU,
    ),
    _corner(
        "scaled down while a restart is delayed", "ExitCode", {"Worker": 2}, _RUN, _fail(137, 0.99), _WAIT,
        _fail(137, 0.99), _WAIT, _fail(137, 0.99), _scale("Worker", 1), _scale("Worker", 2), _WAIT,
    ),
    _corner("a chief scaled to nothing", "OnFailure", {"Chief": 1, "Worker": 2}, _RUN, _scale("Chief", 0)),
    _corner("created suspended", "OnFailure", {"Worker": 2}, Step(0, Act.RESUME), _RUN, suspended=True, cpu=_CPU),
    _corner("managed elsewhere", "OnFailure", {"Worker": 2}, _WAIT, managed_by="kueue.x-k8s.io/multikueue"),
    _corner(
        "restarts in place", "OnFailure", {"Worker": 2}, _RUN, Step(0, Act.RESTART_IN_PLACE),
        Step(0, Act.RESTART_IN_PLACE, pick=0.99), _WAIT, Step(0, Act.DELETE_POD), _WAIT, Step(0, Act.RESTART_IN_PLACE),
        run_policy={"restartMode": "InPlace", "backoffLimit": 4}, cpu=_CPU,
    ),
    _corner(
        "PerJob by default, which cleans up what runs", "OnFailure", {"PS": 1, "Worker": 2}, _RUN, _LAST,
        Step(0, Act.SUCCEED, pick=0.5), run_policy={"cleanPodPolicy": "Running"},
        options=Options(default_network="PerJob"),
    ),
    _corner("fails while others wait", "Never", {"PS": 1, "Worker": 2}, Step(0, Act.RUN, pick=0.5), _fail(1), cpu=_CPU),
    _corner("fails, and all goes", "Never", {"PS": 1, "Worker": 2}, _RUN, _fail(1), run_policy=_CLEANS_ALL),
    _corner(
        "a failure beside a restart of all", "ExitCode", {"PS": 1, "Worker": 3}, _RUN, _fail(137, 0.5), _fail(1, 0.99),
        _WAIT, run_policy={"restartScope": "Job"}, max_failed=1,
    ),
    _corner("restarts again and again", "ExitCode", {"Worker": 2}, _RUN, _fail(137), _WAIT, _fail(137), _WAIT),
    _corner(
        "a TensorBoard of a suspended job", "OnFailure", {"Worker": 1}, _RUN, Step(0, Act.RUN_TENSORBOARD),
        Step(0, Act.SUSPEND), tensorboard={"logDir": "/logs", "image": "example.invalid/tensorboard:1"},
        options=Options(exposed_tensorboards=True), attachments=Attachments(tensorboards=True),
    ),
    *(
        _corner(
            f"a stall is to {what}", "OnFailure", {"Chief": 1, "Worker": 2}, _RUN, Step(0, Act.REPORT, pick=0.1),
            Step(75, Act.RUN, value="all"), _has_stalled, Step(0, Act.REPORT, pick=1.0), reports=True,
            run_policy={"progressDeadlineSeconds": 30, "onStall": what},
        )
        for what in ("Report", "Restart", "Fail")
    ),
)  # fmt: skip
