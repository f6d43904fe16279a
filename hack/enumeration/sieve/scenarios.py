"""The canonical scenarios: each feature of a TFJob, with the events that make the operator act on it."""

from __future__ import annotations

from typing import Any

from hack.enumeration.sieve.happenings import twice
from hack.enumeration.world.world import NAMESPACE, Move, Scenario, World
from hack.faults.plan.attachments import JOB_SERVICE, Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from hack.kubelet import unscheduled
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.views.objects import decode_partial
from tfoperator.operator.options.settings import Options

Json = dict[str, Any]

_CREATE = Step(0, Act.CREATE)
_RUN = Step(0, Act.RUN, value="all")
_FIRST, _LAST = 0.0, 0.99
_MEMBER_CPU = "250m"
_TYPES: tuple[str, ...] = ("Chief", "PS", "Worker", "Evaluator")


def _shape(policy: str = "OnFailure", run_policy: Json | None = None, **more: Any) -> JobShape:
    replicas: dict[str, int] = {kind: more.pop(kind) for kind in _TYPES if kind in more}
    return JobShape("job-0", replicas, policy, run_policy=run_policy or {}, **more)


def _fail(code: int, pick: float = _FIRST) -> Step:
    return Step(0, Act.FAIL, pick=pick, value=code)


def _wait(seconds: float) -> Step:
    """Return a step that only waits; meanwhile pending pods begin to run."""
    return Step(seconds, Act.RUN, value="all")


def _scale(kind: str, replicas: int) -> Step:
    return Step(0, Act.SCALE, value=(kind, replicas))


def _orphan(world: World) -> str:
    """A user takes the owner from a pod and a service of the job, whose labels they keep."""
    for resource, name in ((PODS, "job-0-worker-0"), (SERVICES, "job-0-worker-1")):
        change = {"metadata": {"ownerReferences": None}}
        orphan = world.client.patch(resource, NAMESPACE, name, change, decode_partial)
        world.simulator.interventions.orphaned.add(orphan.metadata.uid)
    return "two orphans"


def _no_room(world: World) -> str:
    """The scheduler finds no node for the last pod of the job that waits."""
    waiting = [pod for pod in world.recorder.current("Pod") if pod["status"].get("phase") == "Pending"]
    if not waiting:
        return "no such pod"
    name: str = max(pod["metadata"]["name"] for pod in waiting)
    refused = {"status": {"conditions": [unscheduled()]}}
    world.client.patch(PODS, NAMESPACE, name, refused, decode_partial, subresource="status")
    return name


_CLEANING = (_CREATE, _RUN, _fail(137, 0.6), Step(3, Act.RUN, value="all"), Step(0, Act.SUCCEED, pick=_LAST))


def _cleaned(name: str, policy: str) -> Scenario:
    shape = _shape("OnFailure", {"cleanPodPolicy": policy} if policy else {}, PS=1, Worker=2)
    return Scenario(name, (shape,), (*_CLEANING, Step(0, Act.SUCCEED, pick=_LAST), _wait(3)))


def _gang(name: str, scheduler: str) -> Scenario:
    shape = _shape("ExitCode", PS=1, Worker=2, scheduling={"minAvailable": 2}, cpu=_MEMBER_CPU)
    moves = (
        _CREATE,
        Step(0, Act.ADMIT_GANG),
        _RUN,
        _fail(137, _LAST),
        _wait(3),
        Step(0, Act.DELETE_POD_GROUP, value=None, pick=_LAST),
        Step(0, Act.ADMIT_GANG),
        _scale("Worker", 3),
        _wait(0),
        Step(0, Act.SUSPEND),
        Step(0, Act.RESUME),
        Step(0, Act.ADMIT_GANG),
        _RUN,
    )
    return Scenario(name, (shape,), moves, Options(gang_scheduler_name=scheduler), Attachments(gang=scheduler))


_TENSORBOARD: Json = {"logDir": "/logs", "image": "example.invalid/tensorboard:1"}

_RESTARTED: tuple[Move, ...] = (_CREATE, _RUN, _fail(137, _LAST), _wait(3), Step(0, Act.DELETE_POD), _wait(3))

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("one worker", (_shape(Worker=1),), (_CREATE, _RUN, Step(0, Act.SUCCEED))),
    Scenario("PS and workers", (_shape(PS=2, Worker=2),), _RESTARTED),
    Scenario(
        "chief and evaluator",
        (_shape("ExitCode", Chief=1, Worker=1, Evaluator=1),),
        (_CREATE, _RUN, _fail(143, 0.5), _wait(3), Step(0, Act.SUCCEED, pick=_LAST), Step(0, Act.SUCCEED)),
    ),
    Scenario(
        "ExitCode",
        (_shape("ExitCode", Worker=2),),
        (_CREATE, _RUN, _fail(130), _wait(3), Step(0, Act.EVICT), _wait(3), _fail(1, _LAST)),
    ),
    Scenario(
        "OnFailure",
        (_shape("OnFailure", Worker=2),),
        (_CREATE, _RUN, Step(0, Act.RESTART_IN_PLACE), Step(0, Act.EVICT), _wait(3), _fail(1), _wait(3)),
    ),
    Scenario(
        "whole-job restart",
        (_shape("ExitCode", {"restartScope": "Job"}, PS=1, Worker=2),),
        (_CREATE, _RUN, _fail(137, _LAST), _wait(3), Step(0, Act.DELETE_BOUND_POD), Step(0, Act.END_TERMINATING)),
    ),
    Scenario(
        "elastic job without room, then scaled",
        (
            _shape(
                "OnFailure",
                {"backoffLimit": 0, "restartScope": "Job"},
                Worker=2,
                elastic={"maxReplicas": 3, "shrinkAfterSeconds": 5, "growAfterSeconds": 20},
            ),
        ),
        (
            _CREATE,
            _no_room,
            Step(0, Act.RUN, pick=_FIRST),
            Step(8, Act.RUN, pick=_FIRST),
            Step(25, Act.RUN, value="all"),
            Step(3, Act.END_TERMINATING),
            _wait(3),
            _scale("Worker", 3),
            Step(3, Act.RUN, value="all"),
            _wait(3),
            _scale("Worker", 1),
            _wait(3),
        ),
    ),
    Scenario(
        "scale up and down",
        (_shape("OnFailure", PS=1, Worker=2),),
        (_CREATE, _RUN, _scale("Worker", 4), _RUN, _scale("Worker", 1), _scale("Worker", 2), _RUN),
    ),
    Scenario(
        "suspend and resume",
        (_shape("OnFailure", Worker=2),),
        (_CREATE, _RUN, Step(0, Act.SUSPEND), Step(0, Act.RESUME), _RUN, _fail(1), Step(0, Act.SUSPEND)),
    ),
    Scenario(
        "deadline",
        (_shape("OnFailure", {"activeDeadlineSeconds": 30}, Worker=2),),
        (_CREATE, _RUN, _fail(1), _wait(40)),
    ),
    Scenario(
        "backoffLimit",
        (_shape("OnFailure", {"backoffLimit": 1}, Worker=2),),
        (_CREATE, _RUN, _fail(1), _wait(3), _fail(1, _LAST), _wait(3)),
    ),
    Scenario(
        "TTL",
        (_shape("Never", {"ttlSecondsAfterFinished": 10}, Worker=2),),
        (_CREATE, _RUN, Step(0, Act.SUCCEED), Step(0, Act.SUCCEED), _wait(15)),
    ),
    _cleaned("cleanPodPolicy All", "All"),
    _cleaned("cleanPodPolicy Running", "Running"),
    _cleaned("cleanPodPolicy None", "None"),
    _cleaned("no cleanPodPolicy", ""),
    _gang("gang of Volcano", "volcano"),
    _gang("gang of the coscheduling plugin", "coscheduler"),
    _gang("gang of Kubernetes", "kubernetes"),
    Scenario(
        "TensorBoard",
        (_shape("OnFailure", Worker=1, tensorboard=_TENSORBOARD),),
        (
            _CREATE,
            _RUN,
            Step(0, Act.RUN_TENSORBOARD),
            Step(0, Act.CHANGE_TENSORBOARD, value={"logDir": "/others"}),
            Step(0, Act.DELETE_TENSORBOARD, pick=_LAST, value="Deployment"),
            Step(0, Act.DELETE_TENSORBOARD, pick=_LAST, value="Service"),
            Step(0, Act.CHANGE_TENSORBOARD, value=None),
            Step(0, Act.CHANGE_TENSORBOARD, value=_TENSORBOARD),
            Step(0, Act.SUCCEED),
        ),
        Options(exposed_tensorboards=True),
        Attachments(tensorboards=True),
    ),
    Scenario(
        "PerJob",
        (_shape("ExitCode", PS=1, Worker=2, network="PerJob"),),
        (*_RESTARTED, Step(0, Act.DELETE_SERVICE), Step(0, Act.SUSPEND), Step(0, Act.RESUME), _RUN),
    ),
    Scenario(
        "PerReplica where PerJob is the default",
        (_shape("ExitCode", Worker=2, network="PerReplica"),),
        (*_RESTARTED, Step(0, Act.DELETE_SERVICE)),
        Options(default_network="PerJob"),
    ),
    Scenario("unique names", (_shape("ExitCode", PS=1, Worker=2),), _RESTARTED, Options(unique_names=True)),
    Scenario(
        "two pods of one replica",
        (_shape("ExitCode", PS=1, Worker=2),),
        (_CREATE, _RUN, twice("worker-1"), _wait(0), _fail(137, _LAST), _wait(3)),
        Options(unique_names=True),
    ),
    Scenario("adoption", (_shape("OnFailure", Worker=2),), (_CREATE, _RUN, _orphan, Step(0, Act.DELETE_POD), _wait(3))),
    Scenario(
        "a foreign object with the name of the job's object",
        (_shape("OnFailure", Worker=1, network="PerJob", tensorboard=_TENSORBOARD),),
        (
            Step(0, Act.CREATE_FOREIGN, pick=_LAST, value=JOB_SERVICE),
            Step(0, Act.CREATE_FOREIGN, pick=0.51, value="Deployment"),
            _CREATE,
            _RUN,
            Step(5, Act.DELETE_FOREIGN),
            _wait(150),
        ),
        Options(exposed_tensorboards=True),
        Attachments(tensorboards=True),
    ),
    Scenario(
        "leader change",
        (_shape("ExitCode", PS=1, Worker=2),),
        (*_RESTARTED, _scale("Worker", 3), _RUN, _fail(1, _LAST)),
        standby=True,
    ),
    Scenario(
        "a new job with the same name",
        (_shape("OnFailure", Worker=2),),
        (
            _CREATE,
            _RUN,
            Step(0, Act.DELETE_JOB, value="Background"),
            _CREATE,
            _RUN,
            Step(0, Act.DELETE_JOB, value="Foreground"),
            _CREATE,
            _RUN,
        ),
    ),
    Scenario(
        "thresholds",
        (_shape("ExitCode", Worker=4, min_succeeded=2, max_failed=1),),
        (_CREATE, _RUN, _fail(1), _fail(137), _wait(3), Step(0, Act.SUCCEED), Step(0, Act.SUCCEED)),
    ),
    Scenario(
        "no progress",
        (_shape("OnFailure", {"progressDeadlineSeconds": 30, "onStall": "Restart"}, Worker=2, reports=True),),
        (_CREATE, _RUN, Step(0, Act.REPORT, pick=1.0), _wait(45), Step(0, Act.REPORT, pick=1.0)),
    ),
    Scenario(
        "two jobs",
        (_shape("ExitCode", Worker=2), JobShape("job-1", {"Chief": 1, "Worker": 1}, "OnFailure")),
        (
            _CREATE,
            Step(0, Act.CREATE, 1),
            _RUN,
            Step(0, Act.RUN, 1, value="all"),
            _fail(137),
            Step(0, Act.SUCCEED, 1),
            _wait(3),
        ),
    ),
    Scenario(
        "a sidecar",
        (_shape("ExitCode", Worker=2, sidecar=True),),
        (_CREATE, _RUN, _fail(137), _wait(3), Step(0, Act.SUCCEED)),
    ),
    Scenario(
        "a node is lost",
        (_shape("OnFailure", PS=1, Worker=2),),
        (_CREATE, _RUN, Step(0, Act.LOSE_NODE), _wait(45), Step(0, Act.NODE_SILENT, pick=_LAST), _wait(45)),
    ),
)
