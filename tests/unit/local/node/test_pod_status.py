from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tfoperator.kube.objects import PodStatus
from tfoperator.kube.pod_spec import Container
from tfoperator.local.node.container_record import ContainerRecord, Running, Terminated, Waiting
from tfoperator.local.node.pod_status import StatusRenderer

START = datetime(2026, 1, 1, 12, 0, 0, 999999, tzinfo=UTC)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["lastTransitionTime"]) for c in status["conditions"]}


def test_the_operator_can_read_what_is_rendered() -> None:
    end = Terminated(137, "Error", START, START + timedelta(seconds=5))
    record = ContainerRecord(Container(name="c"), state=Waiting("CrashLoopBackOff", "soon"), last=end, restarts=2)
    rendered = StatusRenderer(START).render("Running", [], [record], START)
    status = msgspec.convert(rendered, PodStatus)
    (container,) = status.container_statuses
    assert container.restart_count == 2
    assert container.state is not None
    assert container.state.waiting is not None
    assert container.state.waiting.reason == "CrashLoopBackOff"
    assert container.last_state is not None
    assert container.last_state.terminated is not None
    assert container.last_state.terminated.exit_code == 137
    assert status.start_time == START.replace(microsecond=0)


def test_a_condition_keeps_the_time_at_which_it_changed() -> None:
    renderer = StatusRenderer(START)
    record = ContainerRecord(Container(name="c"))
    assert conditions(renderer.render("Pending", [], [record], START))["Ready"] == ("False", "2026-01-01T12:00:00Z")
    later = START + timedelta(minutes=1)
    assert conditions(renderer.render("Pending", [], [record], later))["Ready"] == ("False", "2026-01-01T12:00:00Z")
    record.state = Running(later)
    assert conditions(renderer.render("Running", [], [record], later))["Ready"] == ("True", "2026-01-01T12:01:00Z")


def test_a_pod_is_initialised_when_every_init_container_has_succeeded() -> None:
    renderer = StatusRenderer(START)
    init = ContainerRecord(Container(name="i"), state=Terminated(1, "Error", START, START))
    main = ContainerRecord(Container(name="c"))
    assert conditions(renderer.render("Pending", [init], [main], START))["Initialized"][0] == "False"
    init.state = Terminated(0, "Completed", START, START)
    status = renderer.render("Pending", [init], [main], START)
    assert conditions(status)["Initialized"][0] == "True"
    assert status["initContainerStatuses"][0]["ready"] is True


def test_a_container_that_could_not_be_started_has_a_start_for_those_who_show_one() -> None:
    record = ContainerRecord(Container(name="c"), state=Terminated(127, "StartError", None, START))

    (container,) = StatusRenderer(START).render("Failed", [], [record], START)["containerStatuses"]

    assert container["state"]["terminated"]["startedAt"] == "2026-01-01T12:00:00Z"
