from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.support.clock import FakeClock
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.views.objects import (
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    PodStatus,
)
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.node.container_record import ContainerRecord
from tfoperator.local.node.pod_status import PodReporter

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
