"""Scenarios that mutation testing asked for: rules of the plan to which no other scenario comes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hack.enumeration.sieve.happenings import (
    annotates,
    bind,
    ended,
    is_slow,
    of_pod,
    one_after_another,
    reports_loss,
    respec,
    runs,
    says,
    sends_event,
    silence,
    submits,
    unheard,
    waits,
    writes_a_line,
)
from hack.enumeration.world.world import Move, Scenario, World
from hack.faults.oracle.history import true_conditions
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, JobShape, Step
from hack.kubelet import unscheduled
from tfoperator.operator.options.settings import Options

_CREATE = Step(0, Act.CREATE)
_RUN = Step(0, Act.RUN, value="all")
_FIRST, _LAST = Step(0, Act.SUCCEED), Step(0, Act.SUCCEED, pick=0.99)
_WAIT = Step(3, Act.RUN, value="all")
_CPU = "250m"
_CLEANS_ALL = {"cleanPodPolicy": "All"}

_NO_ROOM = (
    "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: 0/3 nodes are "
    "available: 3 No preemption victims found for incoming pod."
)
_WHY_NO_ROOM = "Insufficient cpu, node(s) had untolerated taint {a: b}"
_PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}
_CHECKPOINT = {"volume": {"emptyDir": {}}, "mountPath": "/checkpoint"}
_MOUNT = {"name": "tensorflow", "image": "x", "volumeMounts": [{"name": "other", "mountPath": "/checkpoint"}]}
_CLASHING = {"spec": {"containers": [_MOUNT], "volumes": [{"name": "other", "emptyDir": {}}]}}
_OVERRULED = {
    "spec": {"restartPolicy": "Always", "hostname": "a", "containers": [{"name": "tensorflow", "image": "x"}]}
}
_OVERRULES = (
    _RUN,
    sends_event("SetPodTemplateRestartPolicy"),
    sends_event("SetPodTemplateHostname", "Worker", "PerJob"),
)
_PLAIN = JobShape("job-0", {"Worker": 2}, "OnFailure")
_LINES = writes_a_line("job-0-worker-0", "job-0-worker-1")
_IN_STALL = {
    "Report": (says("Stalled", "no progress for 30s: the last line of a log", "Behind: worker-0", status="True"),),
    "Restart": (sends_event("Stalled", "no progress for 30s", "Behind: worker-0"),),
}


def _corner(
    name: str,
    policy: str,
    replicas: dict[str, int],
    *moves: Move,
    options: Options | None = None,
    attachments: Attachments | None = None,
    logs: bool = False,
    **more: Any,
) -> Scenario:
    shape = JobShape("job-0", replicas, policy, **more)
    moves = (_CREATE, *moves)
    return Scenario(name, (shape,), moves, options or Options(), attachments or Attachments(), logs=logs)


def _fail(code: int, pick: float = 0.0) -> Step:
    return Step(0, Act.FAIL, pick=pick, value=code)


def _scale(kind: str, replicas: int) -> Step:
    return Step(0, Act.SCALE, value=(kind, replicas))


def _has_stalled(world: World) -> str:
    """Check the state of a job that runs and is silent for more than twice its deadline. Raises RuntimeError."""
    [job] = world.recorder.current("TFJob")
    status = job["status"]
    since = {kind: condition["lastTransitionTime"] for kind, condition in true_conditions(status).items()}
    runs = "Ready" in since and world.clock.now() - datetime.fromisoformat(since["Ready"]) > timedelta(minutes=1)
    if runs and "Stalled" not in since and not status.get("restarts"):
        raise RuntimeError("a job that runs and is silent for more than twice its deadline has not stalled")
    return "as it has to be"


CORNERS: tuple[Scenario, ...] = (
    _corner("AllWorkers", "Never", {"Worker": 3}, _RUN, _FIRST, _LAST, _LAST, success_policy="AllWorkers"),
    _corner(
        "AllWorkers, one worker may fail", "Never", {"Worker": 3}, _RUN, _fail(1), _FIRST, _LAST,
        success_policy="AllWorkers", max_failed=1,
    ),
    _corner(
        "AllWorkers, all workers may fail", "Never", {"Worker": 2}, _RUN, _fail(1), _fail(1),
        success_policy="AllWorkers", max_failed="100%",
    ),
    _corner("the leader fails", "Never", {"Worker": 3}, _RUN, _fail(1, 0.99), _fail(1), max_failed=2),
    _corner(
        "half of the workers must succeed", "Never", {"Chief": 1, "Worker": 4}, _RUN, _LAST, _LAST, min_succeeded="50%"
    ),
    _corner("too few workers are left", "Never", {"Worker": 3}, _RUN, _fail(1), _fail(1), min_succeeded=2),
    _corner(
        "enableDynamicWorker", "Never", {"PS": 1, "Worker": 3}, _RUN, _fail(1, 0.99), _fail(1, 0.5), dynamic=True,
        cpu=_CPU,
    ),
    _corner("only parameter servers", "Never", {"PS": 2}, _RUN, _FIRST, _LAST, cpu=_CPU),
    _corner(
        "scaled to 0 workers", "OnFailure", {"PS": 1, "Worker": 1}, _RUN, _scale("Worker", 0), _scale("Worker", 1),
        cpu=_CPU,
    ),
    _corner(
        "scaled down while a restart is delayed", "ExitCode", {"Worker": 2}, _RUN, _fail(137, 0.99), _WAIT,
        _fail(137, 0.99), _WAIT, _fail(137, 0.99), _scale("Worker", 1), _scale("Worker", 2), _WAIT,
    ),
    _corner("scaled to 0 chiefs", "OnFailure", {"Chief": 1, "Worker": 2}, _RUN, _scale("Chief", 0)),
    _corner("created suspended", "OnFailure", {"Worker": 2}, Step(0, Act.RESUME), _RUN, suspended=True, cpu=_CPU),
    _corner("managed by another controller", "OnFailure", {"Worker": 2}, _WAIT, managed_by="kueue.x-k8s.io/multikueue"),
    _corner(
        "restarts in place", "OnFailure", {"Worker": 2}, _RUN, Step(0, Act.RESTART_IN_PLACE),
        Step(0, Act.RESTART_IN_PLACE, pick=0.99), _WAIT, Step(0, Act.DELETE_POD), _WAIT, Step(0, Act.RESTART_IN_PLACE),
        run_policy={"restartMode": "InPlace", "backoffLimit": 4}, cpu=_CPU,
    ),
    _corner(
        "PerJob by default, cleanPodPolicy Running", "OnFailure", {"PS": 1, "Worker": 2}, _RUN, _LAST,
        Step(0, Act.SUCCEED, pick=0.5), run_policy={"cleanPodPolicy": "Running"},
        options=Options(default_network="PerJob"),
    ),
    _corner(
        "fails while other pods are pending", "Never", {"PS": 1, "Worker": 2}, Step(0, Act.RUN, pick=0.5), _fail(1),
        cpu=_CPU,
    ),
    _corner("fails, cleanPodPolicy All", "Never", {"PS": 1, "Worker": 2}, _RUN, _fail(1), run_policy=_CLEANS_ALL),
    _corner(
        "a failure during a restart of all replicas", "ExitCode", {"PS": 1, "Worker": 3}, _RUN, _fail(137, 0.5),
        _fail(1, 0.99), _WAIT, run_policy={"restartScope": "Job"}, max_failed=1,
    ),
    _corner("restarts again and again", "ExitCode", {"Worker": 2}, _RUN, _fail(137), _WAIT, _fail(137), _WAIT),
    _corner(
        "a TensorBoard of a suspended job", "OnFailure", {"Worker": 1}, _RUN, Step(0, Act.RUN_TENSORBOARD),
        Step(0, Act.SUSPEND), tensorboard={"logDir": "/logs", "image": "example.invalid/tensorboard:1"},
        options=Options(exposed_tensorboards=True), attachments=Attachments(tensorboards=True),
    ),
    _corner(
        "a TensorBoard is removed from the spec", "OnFailure", {"Worker": 1}, _RUN, Step(0, Act.RUN_TENSORBOARD),
        Step(0, Act.CHANGE_TENSORBOARD, value=None), tensorboard={"logDir": "/logs", "image": "example.invalid/t:1"},
        options=Options(exposed_tensorboards=True), attachments=Attachments(tensorboards=True),
    ),
    *(
        _corner(
            f"a stall, onStall {action}", "OnFailure", {"Chief": 1, "Worker": 2}, _RUN, Step(0, Act.REPORT, pick=0.1),
            Step(75, Act.RUN, value="all"), _has_stalled, Step(0, Act.REPORT, pick=1.0), reports=True,
            run_policy={"progressDeadlineSeconds": 30, "onStall": action},
        )
        for action in ("Report", "Restart", "Fail")
    ),
    _corner(
        "reasons why pods wait", "OnFailure", {"Worker": 5},
        of_pod("job-0-worker-0", conditions=[unscheduled(_NO_ROOM)]),
        of_pod("job-0-worker-1", containerStatuses=[waits("ErrImagePull", "rpc error: not found")]),
        of_pod("job-0-worker-2", initContainerStatuses=[waits("CrashLoopBackOff", "back-off 10s", "setup")]),
        of_pod("job-0-worker-3", containerStatuses=[waits("CreateContainerConfigError", 'secret "key" not found')]),
        says("Running", "0/5 replicas ready", "Worker-0", _WHY_NO_ROOM, "Worker-1", "ImagePullBackOff"),
        says("Running", "Worker-2", "init container setup: CrashLoopBackOff", "Worker-3 waits: ", status="False"),
        unheard(
            of_pod("job-0-worker-0", conditions=[unscheduled(_NO_ROOM.replace("1 ", "2 ").replace("/3", "/4"))]),
            of_pod("job-0-worker-1", containerStatuses=[waits("ImagePullBackOff", "Back-off pulling image")]),
        ),
        of_pod("job-0-worker-0", conditions=None), of_pod("job-0-worker-2", initContainerStatuses=None),
        of_pod("job-0-worker-2", containerStatuses=[waits("ImagePullBackOff")]), Step(0, Act.RUN),
        says("Running", "1/5 replicas ready", "Worker-1 and Worker-2 wait: ImagePullBackOff", status="True"),
        says("Running", 'Worker-3 waits: CreateContainerConfigError: secret "key" not found'),
        _RUN,
    ),
    _corner(
        "pods fail in other ways than by their programs", "Never", {"Worker": 3}, _RUN,
        of_pod("job-0-worker-0", phase="Failed", reason="NodePorts", message="Pod was rejected: a port is taken",
               containerStatuses=None), _WAIT,
        of_pod("job-0-worker-1", phase="Failed", conditions=[_PREEMPTED], containerStatuses=[ended(1)]), _WAIT,
        of_pod("job-0-worker-2", phase="Failed", containerStatuses=[ended(137, "ContainerStatusUnknown")]), _WAIT,
        of_pod("job-0-worker-2", phase="Failed", containerStatuses=[ended(1)]),
    ),
    _corner(
        "an init container fails", "Never", {"Worker": 2},
        of_pod("job-0-worker-1", phase="Failed", initContainerStatuses=[ended(1, name="setup")],
               containerStatuses=[waits("PodInitializing")]),
        says("Failed", "Worker-1", "container setup", "code 1", status="True"),
    ),
    _corner(
        "a slow replica", "OnFailure", {"Worker": 3}, bind, _RUN, is_slow("worker-1"),
        sends_event("Straggling", "worker-1"), sends_event("NodeAvoided", "worker-1", "node-1"),
        Step(0, Act.END_TERMINATING), bind, _RUN, *[Step(0, Act.RESTART_IN_PLACE)] * 3,
        sends_event("NodeAvoided", "worker-0", "node-0"),
        Step(0, Act.END_TERMINATING), bind, _RUN, says("Straggling", "No replica", status="False"), reports=True,
        run_policy={"onStraggler": "Restart"},
    ),
    _corner(
        "a loss that is not a number", "OnFailure", {"Worker": 1}, _RUN, reports_loss("nan", 9),
        reports_loss("nan", 10), sends_event("LossIsNotANumber", "worker-0 has reported this 10 times"),
        reports_loss("nan", 0), says("Diverged", "is not a number", status="True"), reports_loss("0.5", 0),
        says("Diverged", "is a number again", status="False"), reports=True,
    ),
    _corner(
        "a restart after another worker has ended", "OnFailure", {"Worker": 2}, _RUN,
        of_pod("job-0-worker-1", phase="Succeeded", containerStatuses=[ended(0)]), _WAIT,
        of_pod("job-0-worker-0", phase="Failed", containerStatuses=[ended(1)]),
        sends_event("RestartedAlone", "worker-0 is restarted after worker-1 had ended"),
    ),
    _corner(
        "programs fail on the same node", "ExitCode", {"Worker": 2}, bind, _RUN,
        *(move for _ in range(3) for move in (_fail(137, 0.99), silence(5), bind, _RUN)),
        _fail(201), silence(5), bind, _RUN, sends_event("NodeAvoided", "worker-1", "node-1"),
        sends_event("NodeAvoided", "worker-0", "node-0"), run_policy={"onStraggler": "Restart"},
    ),
    _corner(
        "an invalid spec for some time", "OnFailure", {"Worker": 2}, _RUN,
        respec("job-0", checkpoint=_CHECKPOINT, tfReplicaSpecs={"Worker": {"template": _CLASHING}}), _fail(1),
        says("Running", "/checkpoint", status="Unknown"), says("Ready", "/checkpoint", status="Unknown"),
        respec("job-0", checkpoint=None), _WAIT,
    ),
    Scenario("an invalid spec from the start", (_PLAIN,), (submits(_PLAIN, _CLASHING, checkpoint=_CHECKPOINT), _WAIT)),
    Scenario(
        "a template with fields that the operator replaces", (_PLAIN,),
        (submits(_PLAIN, _OVERRULED, network="PerJob"), *_OVERRULES),
    ),
    _corner(
        "the kubelet restarts programs by a rule", "ExitCode", {"Worker": 2}, _RUN,
        of_pod("job-0-worker-0", containerStatuses=[ended(137)]),
        of_pod("job-0-worker-0", containerStatuses=[{**waits("CrashLoopBackOff"), "lastState": ended(137)["state"]}]),
        says("Restarting", "Worker", status="True"), says("Running", "Worker-0", "137", status="False"),
        of_pod("job-0-worker-0", containerStatuses=[runs(1)]), _fail(137, 0.99), _WAIT,
        run_policy={"restartMode": "InPlace"},
    ),
    _corner(
        "a deadline waits for stacks", "OnFailure", {"Worker": 2}, _RUN, silence(60), logs=True,
        run_policy={"activeDeadlineSeconds": 30},
    ),
    _corner(
        "a PodGroup is deleted slowly", "OnFailure", {"Worker": 2}, Step(0, Act.ADMIT_GANG), _RUN,
        Step(0, Act.DELETE_POD_GROUP, pick=0.1), _fail(1), _WAIT, cpu=_CPU,
        options=Options(gang_scheduler_name="volcano"), attachments=Attachments(gang="volcano"),
    ),
    _corner("pods start one after another", "OnFailure", {"Worker": 6}, one_after_another),
    *(
        _corner(
            f"a stall found in logs, onStall {action}", "OnFailure", {"PS": 1, "Worker": 2}, _RUN, _LINES, silence(20),
            writes_a_line("job-0-worker-1"), silence(40), *_IN_STALL[action], _LINES, silence(75), logs=True, cpu=_CPU,
            run_policy={"progressDeadlineSeconds": 30, "onStall": action},
        )
        for action in ("Report", "Restart")
    ),
    *(
        _corner(
            f"no room for a gang of {scheduler}", "OnFailure", {"Worker": 2}, *before,
            *(of_pod(f"job-0-worker-{at}", conditions=[unscheduled(_NO_ROOM)]) for at in range(2)),
            says("Running", "the gang of 2 pods", "waits for room", "Insufficient cpu", status="False"),
            sends_event("Unschedulable", "Insufficient cpu"), annotates("job-0", gang_topology="rack"),
            says("Running", "no topology"), sends_event("TopologyIgnored", "PodGroup job-0 has no topology"),
            unheard(of_pod("job-0-worker-1", conditions=[unscheduled(echo)])),
            *(of_pod(f"job-0-worker-{at}", conditions=None) for at in range(2)), _RUN,
            options=Options(gang_scheduler_name=scheduler), attachments=Attachments(gang=scheduler), cpu=_CPU,
        )
        for scheduler, echo, before in (
            ("coscheduler", "optimistic rejection in PreFilter", ()),
            ("kubernetes", "pod group is unschedulable", ()),
            ("volcano", "pod group is not ready, 2 Pending, 2 minAvailable", (Step(0, Act.ADMIT_GANG),)),
        )
    ),
)  # fmt: skip
