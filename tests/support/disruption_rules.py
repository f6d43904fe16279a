"""The table of docs/reference/disruptions.md, row by row, on whatever node a stage has.

Each rule is played by jobs whose pods are taken from them by a deletion, and by jobs whose programs fail.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hack.faults.oracle.history import true_conditions
from tests.support import manifests
from tests.support.cluster import Cluster, decode, find
from tests.support.eventually import eventually
from tfoperator.api.v1.parts.run_policy import LEAST_PROGRESS_DEADLINE
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import ApiClient

Json = dict[str, Any]

SLEEP = "sleep 600"
LIMIT = 180.0
"""Seconds that a busy machine may take for a pod."""


class DisruptionStage(Cluster):
    """A namespace with a node, on which programs of shell run; `folder` is a directory that they share."""

    def __init__(self, client: ApiClient, namespace: str, folder: Path, *, image: str, pod_spec: Json | None = None):
        super().__init__(client, namespace)
        self.folder = folder
        self._image = image
        self.pod_spec = pod_spec or {}

    def once(self, name: str, exit_code: int) -> str:
        """A program that fails when it runs first, and then runs on."""
        return f"if [ ! -e {self.folder}/{name} ]; then touch {self.folder}/{name}; exit {exit_code}; fi; {SLEEP}"

    def start(
        self, name: str, script: str = SLEEP, *, policy: str = "OnFailure", replicas: int = 1, **run_policy: Any
    ) -> None:
        """Create a job of some workers."""
        mounts = self.pod_spec.get("volumeMounts", [])
        container = {
            "name": "tensorflow", "image": self._image, "command": ["sh", "-c", script], "volumeMounts": mounts,
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
        }  # fmt: skip
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        spec |= {key: value for key, value in self.pod_spec.items() if key != "volumeMounts"}
        worker = {"replicas": replicas, "restartPolicy": policy, "template": {"spec": spec}}
        more = {"maxFailedWorkers": run_policy.pop("maxFailedWorkers")} if "maxFailedWorkers" in run_policy else {}
        job = manifests.job(name, {"Worker": worker}, runPolicy=run_policy, **more)
        self.submit(job)

    def status(self, name: str) -> Json:
        return dict(self.job(name).get("status") or {})

    def pod(self, name: str, index: int = 0) -> Json | None:
        return find(self.client, PODS, self.namespace, f"{name}-worker-{index}")

    def until(self, name: str, condition: str, **fields: Any) -> Json:
        """Wait until the condition is true and the fields of the status are so; return the status."""

        def has_condition() -> Json:
            status = self.status(name)
            values = {key: status.get(key, 0) for key in fields}
            assert condition in true_conditions(status), status
            assert values == fields, status
            return status

        return eventually(has_condition, within=LIMIT, every=0.1, what=f"{name} is {condition} with {fields}")

    def take(self, name: str, index: int = 0) -> str:
        """Delete a pod that runs, and wait until its successor runs. Return when the successor was made.

        A pod that is lost before the status has recorded it is made again without being counted.
        """
        old = self.until_started(name, index)
        self.delete_pod(f"{name}-worker-{index}")
        new = eventually(
            lambda: (pod := self.runs(name, index))["metadata"]["uid"] != old["metadata"]["uid"] and pod,
            within=LIMIT, every=0.1, what=f"{name}-worker-{index} is made again",
        )  # fmt: skip
        return str(new["metadata"]["creationTimestamp"])

    def until_started(self, name: str, index: int = 0) -> Json:
        """Wait until the status counts the replica's pod as started; return the pod."""
        eventually(
            lambda: index in self._started(name),
            within=LIMIT, every=0.1, what=f"the status counts {name}-worker-{index} as started",
        )  # fmt: skip
        return self.runs(name, index)

    def _started(self, name: str) -> frozenset[int]:
        worker = self.status(name).get("replicaStatuses", {}).get("Worker", {})
        return parse_indexes(worker.get("startedIndexes", ""))

    def runs(self, name: str, index: int = 0) -> Json:
        """Wait until the pod of a replica runs; return it."""

        def running_pod() -> Json | None:
            pod = self.pod(name, index)
            leaves = pod is None or pod["metadata"].get("deletionTimestamp") is not None
            return None if leaves or pod is None or pod.get("status", {}).get("phase") != "Running" else pod

        return eventually(running_pod, within=LIMIT, every=0.1, what=f"{name}-worker-{index} runs")

    def messages(self, name: str, reason: str) -> list[str]:
        """The messages of the job's events with this reason."""
        about = [
            event for event in self.events() if event["involvedObject"]["name"] == name and event["reason"] == reason
        ]
        return [event["message"] for event in about for _ in range(event.get("count") or 1)]


def _fails(stage: DisruptionStage, name: str, why: str, **fields: Any) -> None:
    status = stage.until(name, "Failed", **fields)
    [message] = [condition["message"] for condition in status["conditions"] if condition["type"] == "Failed"]
    assert why in message, message


def _wait_disruption_event(stage: DisruptionStage, name: str, why: str) -> None:
    """Wait for the one event that names a disruption: events are written after what they are about."""

    def is_recorded() -> bool:
        messages = stage.messages(name, "TFJobRestarting")
        assert len([message for message in messages if why in message]) == 1, messages
        return True

    eventually(is_recorded, within=LIMIT, every=0.1, what=f"an event of {name} names the disruption")


def _restarts(stage: DisruptionStage) -> None:
    stage.start("both", stage.once("both", 130), policy="ExitCode")
    stage.until("both", "Running", restarts=1)
    stage.take("both")
    status = stage.until("both", "Running", restarts=2)
    assert status["replicaStatuses"]["Worker"]["restartCounts"] == {"0": 2}


def _disruptions(stage: DisruptionStage) -> None:
    stage.start("apart", stage.once("apart", 130), policy="ExitCode")
    stage.until("apart", "Running", restarts=1, disruptions=0)
    stage.take("apart")
    status = stage.until("apart", "Running", disruptions=1)
    assert status["replicaStatuses"]["Worker"]["disruptionCounts"] == {"0": 1}
    _wait_disruption_event(stage, "apart", "Worker-0 (deleted by a user or a program)")


def _backoff_limit(stage: DisruptionStage) -> None:
    stage.start("limited", backoffLimit=0)
    for _ in range(2):
        stage.take("limited")
    stage.until("limited", "Running", restarts=2, disruptions=2)
    stage.start("over", "exit 3", backoffLimit=0)
    _fails(stage, "over", "it has reached the specified backoff limit", disruptions=0)


def _in_place(stage: DisruptionStage) -> None:
    stage.start("in-place", stage.once("in-place", 3), backoffLimit=1)
    stage.until("in-place", "Running", restarts=1, disruptions=0)
    stage.take("in-place")
    stage.until("in-place", "Running", restarts=2, disruptions=1)
    stage.start("in-place-over", "exit 3", backoffLimit=1)
    _fails(stage, "in-place-over", "it has reached the specified backoff limit", disruptions=0)


def _failed_workers(stage: DisruptionStage) -> None:
    for policy in ("Never", "ExitCode"):
        name = f"kept-{policy.lower()}"
        stage.start(name, policy=policy, maxFailedWorkers=0)
        stage.take(name)
        status = stage.until(name, "Running", disruptions=1)
        assert "failedIndexes" not in status["replicaStatuses"]["Worker"]
    stage.start("lost", "exit 3", policy="Never")
    _fails(stage, "lost", "1 Worker replica(s) failed")


def _together(stage: DisruptionStage) -> None:
    stage.start("joint", replicas=2, restartScope="Job", backoffLimit=0)
    other = stage.runs("joint", 1)
    stage.take("joint")
    assert stage.runs("joint", 1)["metadata"]["uid"] != other["metadata"]["uid"]
    stage.until("joint", "Running", restarts=1, jobRestarts=1, disruptions=1, jobDisruptions=1)
    _wait_disruption_event(stage, "joint", "This counts as a disruption, not as a failure.")
    assert len(stage.messages("joint", "TFJobRestarting")) == 1
    stage.start("joint-over", "exit 3", replicas=2, restartScope="Job", backoffLimit=0)
    _fails(stage, "joint-over", "it has reached the specified backoff limit", jobDisruptions=0)


def _stragglers(stage: DisruptionStage) -> None:
    stage.start("moved", onStraggler="Restart")
    stage.take("moved")
    assert "nodeFailures" not in stage.until("moved", "Running", disruptions=1)
    stage.start("failed-there", stage.once("failed-there", 130), policy="ExitCode", onStraggler="Restart")
    assert list(stage.until("failed-there", "Running", restarts=1)["nodeFailures"].values()) == [1]


def _progress(stage: DisruptionStage) -> None:
    talks = "while true; do echo step; sleep 0.5; done"
    stage.start("talks", talks, progressDeadlineSeconds=LEAST_PROGRESS_DEADLINE, onStall="Fail")
    stage.take("talks")
    stage.take("talks")
    status = stage.until("talks", "Running", disruptions=2)
    assert "Stalled" not in true_conditions(status)


def _stalled(stage: DisruptionStage) -> None:
    stage.start("silent", progressDeadlineSeconds=LEAST_PROGRESS_DEADLINE, onStall="Restart", backoffLimit=0)
    _fails(stage, "silent", "made no progress", disruptions=0)


def _active_deadline(stage: DisruptionStage) -> None:
    """The deadline is given when the second pod runs: a busy node may need any time until then."""
    stage.start("late")
    stage.until_started("late")
    started = stage.status("late")["startTime"]
    stage.take("late")
    assert stage.until("late", "Running", disruptions=1)["startTime"] == started
    limit = {"spec": {"runPolicy": {"activeDeadlineSeconds": 1}}}
    stage.client.patch(TFJOBS, stage.namespace, "late", limit, decode)
    _fails(stage, "late", "active longer than specified deadline", disruptions=1)


_MAX_TAKEN = 7
"""The wait after so many disruptions in a row is 32 s: longer than any node needs to end a pod of the stage."""


def _delay(stage: DisruptionStage) -> None:
    """Take a pod again and again until the job's condition shows that it waits.

    The wait counts from the deletion. A busy node may need longer than the first waits to end a pod; they double.
    """
    stage.start("again")
    for taken in range(1, _MAX_TAKEN + 1):
        is_held = _is_held_when_taken(stage, "again")
        status = stage.until("again", "Running", disruptions=taken, ready="1/1")
        assert status["disruptionBackoff"]["count"] == taken
        if is_held:
            return
    raise AssertionError(f"the job waited for nothing after {_MAX_TAKEN} disruptions in a row")


def _is_held_when_taken(stage: DisruptionStage, name: str) -> bool:
    """Delete the first worker's pod; return whether the job's condition names the wait until its successor runs."""
    messages: list[str] = []

    def replaced() -> bool:
        conditions = {condition["type"]: condition["message"] for condition in stage.status(name)["conditions"]}
        held = "its pods were deleted or evicted repeatedly; the operator will create the next pod at"
        if held in conditions.get("Running", ""):
            messages.append(conditions["Running"])
        new = stage.pod(name)
        return new is not None and new["metadata"]["uid"] != old and new.get("status", {}).get("phase") == "Running"

    old = stage.until_started(name)["metadata"]["uid"]
    stage.delete_pod(f"{name}-worker-0")
    eventually(replaced, within=LIMIT, every=0.1, what=f"{name}-worker-0 is made again")
    return bool(messages)


RULES: Mapping[str, Callable[[DisruptionStage], None]] = {
    "`status.restarts`, `restartCounts` in `status.replicaStatuses`": _restarts,
    "`status.disruptions`, `disruptionCounts` in `status.replicaStatuses`": _disruptions,
    "`backoffLimit`, and `--max-restarts` of `tfoperator run`": _backoff_limit,
    "`backoffLimit` and restarts that a kubelet makes in place": _in_place,
    "`maxFailedWorkers`, `minSucceededWorkers`, `failedIndexes`": _failed_workers,
    "`restartScope: Job`": _together,
    "`status.nodeFailures` (with `onStraggler: Restart`)": _stragglers,
    "`progressDeadlineSeconds`": _progress,
    "`onStall: Restart`, `onStraggler: Restart`": _stalled,
    "`activeDeadlineSeconds`": _active_deadline,
    "the delay before the next pod": _delay,
}
"""A play by the first cell of its row."""
