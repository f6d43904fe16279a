from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.views.pod_spec import Container, ResourceRequirements, VolumeMount
from tfoperator.kube.views.pod_status import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    PodStatus,
)
from tfoperator.local.node.container_record import ContainerRecord
from tfoperator.local.node.container_status import container_statuses, init_container_statuses
from tfoperator.local.node.pod_conditions import pod_conditions
from tfoperator.local.node.pod_status import PodReporter
from tfoperator.local.runtime.protocol import ContainerIdentity, ContainerUser

START = datetime(2026, 1, 1, 12, 0, 0, 999999, tzinfo=UTC)


def ended(code: int, reason: str, started: datetime | None, finished: datetime = START) -> ContainerStateTerminated:
    return ContainerStateTerminated(code, reason, started_at=started, finished_at=finished)


class Reports:
    """A reporter on virtual time, and the status that it has reported last."""

    def __init__(self) -> None:
        self.clock = FakeClock(START)
        self.last: dict[str, Any] = {}
        api: Any = self
        self.reporter = PodReporter(view(manifest("p", container())), api, self.clock)

    def report(self, _pod: object, status: dict[str, Any]) -> None:
        self.last = status

    def status(self, phase: str, init: list[ContainerRecord], main: list[ContainerRecord]) -> dict[str, Any]:
        self.reporter.status(phase, init, main)
        return self.last

    def conditions(self, phase: str, init: list[ContainerRecord], main: list[ContainerRecord]) -> dict[str, Any]:
        return {c["type"]: (c["status"], c["lastTransitionTime"]) for c in self.status(phase, init, main)["conditions"]}


def test_the_operator_can_read_what_is_rendered_and_a_container_that_could_not_be_started_has_a_start() -> None:
    end = ended(137, "Error", START, START + timedelta(seconds=5))
    record = ContainerRecord(
        Container(name="c"), state=ContainerStateWaiting("CrashLoopBackOff", "soon"), last=end, restarts=2
    )
    status = msgspec.convert(Reports().status("Running", [], [record]), PodStatus)
    (rendered,) = status.container_statuses
    assert rendered.restart_count == 2
    assert rendered.state.waiting.reason == "CrashLoopBackOff"
    assert rendered.last_state.terminated.exit_code == 137
    assert status.start_time == START.replace(microsecond=0)
    record = ContainerRecord(Container(name="c"), state=ended(127, "StartError", None))
    (rendered,) = Reports().status("Failed", [], [record])["containerStatuses"]
    assert rendered["state"]["terminated"]["startedAt"] == "2026-01-01T12:00:00Z"


def test_a_condition_keeps_the_time_at_which_it_changed_and_init_containers_have_to_succeed() -> None:
    reports, record = Reports(), ContainerRecord(Container(name="c"))
    for _ in range(2):
        assert reports.conditions("Pending", [], [record])["Ready"] == ("False", "2026-01-01T12:00:00Z")
        reports.clock.advance(30)
    record.state = ContainerStateRunning(reports.clock.now())
    assert reports.conditions("Running", [], [record])["Ready"] == ("True", "2026-01-01T12:01:00Z")
    reports, main = Reports(), ContainerRecord(Container(name="c"))
    init = ContainerRecord(Container(name="i"), state=ended(1, "Error", START))
    assert reports.conditions("Pending", [init], [main])["Initialized"][0] == "False"
    init.state = ended(0, "Completed", START)
    assert reports.conditions("Pending", [init], [main])["Initialized"][0] == "True"
    assert reports.last["initContainerStatuses"][0]["ready"] is True


IDENTITY = ContainerIdentity("process://first", user=ContainerUser(5, 6, (7, 8)))
SIZES: Any = ResourceRequirements(limits={"memory": "1Gi"}, requests={"cpu": 1})
MOUNTS = (VolumeMount("data", "/data"), VolumeMount("data", "/seen", read_only=True))


def test_a_container_has_its_identity_from_its_start_and_keeps_that_of_the_attempt_before() -> None:
    record = ContainerRecord(Container(name="c", image="i", resources=SIZES, volume_mounts=MOUNTS))
    places = [
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": "/seen", "readOnly": True, "recursiveReadOnly": "Disabled"},
    ]
    waiting = {
        "name": "c", "image": "i", "imageID": "", "ready": False, "started": False, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {}, "volumeMounts": places,
    }  # fmt: skip
    assert container_statuses([record], has_init=False) == [waiting]
    [status] = container_statuses([record], has_init=True)
    assert status["state"] == {"waiting": {"reason": "PodInitializing"}}
    record.identity, record.state = IDENTITY, ended(1, "Error", START)
    [status] = container_statuses([record], has_init=False)
    assert (status["containerID"], status["state"]["terminated"]["containerID"]) == ("process://first",) * 2
    assert status["user"] == {"linux": {"uid": 5, "gid": 6, "supplementalGroups": [7, 8]}}
    assert status["resources"] == {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert status["allocatedResources"] == {"cpu": "1"}
    record.restart(0.0)
    record.identity = ContainerIdentity("docker://second", "sha256:abc")
    record.state = ContainerStateRunning(START)
    [status] = container_statuses([record], has_init=False)
    assert (status["containerID"], status["imageID"]) == ("docker://second", "sha256:abc")
    assert status["lastState"]["terminated"]["containerID"] == "process://first"
    assert "user" not in status
    assert (status["ready"], status["started"]) == (True, True)


def test_containers_are_in_the_order_of_their_names_and_init_containers_in_that_of_the_spec() -> None:
    records = [ContainerRecord(Container(name=name)) for name in ("b", "a")]
    assert [status["name"] for status in container_statuses(records, has_init=False)] == ["a", "b"]
    assert [status["name"] for status in init_container_statuses(records)] == ["b", "a"]


WAITS, RUNS = ContainerStateWaiting("ContainerCreating"), ContainerStateRunning(START)
FAILED, DONE = ended(1, "Error", START), ended(0, "Completed", START)
CONDITIONS = {
    "before the sandbox": (
        "Pending", None, WAITS, False,
        {"PodReadyToStartContainers": "PodSandboxNotReady: pod sandbox has no IP address", "Initialized": True,
         "Ready": "ContainersNotReady: containers with unready status: [c]"},
    ),
    "an init container": (
        "Pending", RUNS, WAITS, True,
        {"PodReadyToStartContainers": True,
         "Initialized": "ContainersNotInitialized: containers with incomplete status: [i]",
         "Ready": "ContainersNotReady: containers with unready status: [c]"},
    ),
    "its init container is in back-off": (
        "Pending", ContainerStateWaiting("CrashLoopBackOff", "soon"), WAITS, True,
        {"PodReadyToStartContainers": True,
         "Initialized": "ContainersNotInitialized: containers with incomplete status: [i]",
         "Ready": "ContainersNotReady: containers with unready status: [c]"},
    ),
    "running": ("Running", DONE, RUNS, True,
                {"PodReadyToStartContainers": True, "Initialized": True, "Ready": True}),
    "succeeded": (
        "Succeeded", DONE, DONE, True,
        {"PodReadyToStartContainers": "PodSandboxNotReady: pod sandbox is not ready", "Initialized": "PodCompleted",
         "Ready": "PodCompleted"},
    ),
    "failed": (
        "Failed", None, FAILED, True,
        {"PodReadyToStartContainers": "PodSandboxNotReady: pod sandbox is not ready", "Initialized": True,
         "Ready": "PodFailed"},
    ),
    "its init container failed": (
        "Failed", FAILED, WAITS, True,
        {"Initialized": "ContainersNotInitialized: containers with incomplete status: [i]", "Ready": "PodFailed"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_are_those_of_a_kubelet(name: str) -> None:
    phase, first, state, has_address, wanted = CONDITIONS[name]
    init = [] if first is None else [ContainerRecord(Container(name="i"), state=first)]
    main = [ContainerRecord(Container(name="c"), state=state)]
    conditions = {condition.kind: condition for condition in pod_conditions(phase, init, main, has_address=has_address)}
    shown = {
        kind: ": ".join(filter(None, (condition.reason, condition.message))) or condition.value
        for kind, condition in conditions.items()
    }
    assert wanted.items() <= shown.items()
    assert shown["ContainersReady"] == shown["Ready"]
    assert conditions["PodScheduled"].value
    assert conditions["Initialized"].value is (not str(wanted["Initialized"]).startswith("ContainersNot"))


def test_a_report_names_the_generation_that_it_is_about() -> None:
    reports = Reports()
    assert "observedGeneration" not in reports.status("Pending", [], [])
    reports.reporter.generation = 3
    status = reports.status("Running", [], [ContainerRecord(Container(name="c"), state=RUNS)])
    assert {status["observedGeneration"], *(condition["observedGeneration"] for condition in status["conditions"])} == {
        3
    }
