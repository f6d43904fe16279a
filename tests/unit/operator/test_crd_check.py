"""An operator beside an older CRD: the log, the metric and the events."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import namespaced
from tests.support.fake_api import FakeApi, api_error
from tests.unit.api.schema.test_served import document
from tfoperator.api.schema.crd import openapi_schema
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.operator.crd_check import CrdCheck, missing_fields_of
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
HOUR, CONFIRM = 3600.0, 5.0


def older() -> bytes:
    schema = openapi_schema()
    del schema["properties"]["spec"]["properties"]["network"]
    return document(schema)


class World:
    """An operator's check, called by hand, beside an API server whose OpenAPI document can be exchanged."""

    def __init__(self, answer: bytes | KubeError) -> None:
        self.api, self.clock, self.metrics = FakeApi(), FakeClock(), OperatorMetrics()
        self.answer = answer
        self.leads = True
        self.events: list[tuple[str, str, str]] = []
        self.check = CrdCheck(
            self.api,
            self.fetch,
            namespaces=("",),
            report=lambda job, reason, message: self.events.append((job.name, reason.value, message)),
            is_leader=lambda: self.leads,
            metrics=self.metrics,
            clock=self.clock,
        )

    def fetch(self, path: str) -> bytes:
        assert path == "/openapi/v3/apis/kubeflow.org/v1"
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer

    def submit(self, name: str, applied: str = "", managed: Any = None, version: str = "kubeflow.org/v1") -> None:
        """Put a job as it is stored: the API server has removed what the old CRD lacks."""
        job = namespaced(tfjob(name, Worker=1))
        job["metadata"]["annotations"] = {APPLIED: applied} if applied else {}
        job["metadata"]["managedFields"] = [{"apiVersion": version, "fieldsV1": managed}] if managed else []
        self.api.put(TFJOBS, job)

    def run(self) -> float | None:
        """Check; where fields have just been found missing, also confirm that. Return the seconds until the next."""
        pause = self.check._check()
        if pause == CONFIRM:
            self.clock.advance(CONFIRM)
            pause = self.check._check()
        return pause

    @property
    def missing(self) -> float | None:
        return self.metrics.registry.get_sample_value("tfoperator_crd_missing_fields")


def applied(version: str = "kubeflow.org/v1", **spec: Any) -> str:
    return json.dumps({"apiVersion": version, "kind": "TFJob", "spec": spec})


def test_a_crd_of_this_release_is_looked_at_each_hour(caplog: pytest.LogCaptureFixture) -> None:
    world = World(document(openapi_schema()))
    assert world.missing is None
    assert world.run() is None
    assert world.missing == 0
    assert world.api.calls == []
    assert caplog.records == []
    looks = []
    world.check._fetch = lambda path: looks.append(path) or world.fetch(path)
    world.check.start()
    for hour in range(3):
        world.clock.wait_for_waiters()
        assert len(looks) == hour + 1
        world.clock.advance(HOUR)
    world.check.stop()


def test_an_older_crd_is_shown_until_it_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World(older())
    assert [world.run(), world.run()] == [60.0, 60.0]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "removes spec.network from jobs" in record.getMessage()
    assert "--force-conflicts" in record.getMessage()
    assert world.missing == 1
    world.answer = document(openapi_schema())
    assert world.run() is None
    assert world.missing == 0
    assert caplog.messages[-1] == "the CRD of TFJobs has all fields of this release"


def test_a_crd_that_is_served_a_moment_after_the_operator_has_started_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(older())
    world.submit("job", applied=applied(network="PerJob"))
    assert world.check._check() == CONFIRM
    world.clock.advance(2)
    assert world.check._check() == CONFIRM - 2, "another reason for a check does not confirm it"
    world.answer = document(openapi_schema())
    world.clock.advance(3)
    assert world.check._check() is None
    assert (caplog.records, world.events, world.missing) == ([], [], 0)
    world.answer = older()
    assert world.check._check() == CONFIRM, "the time begins anew"


def test_a_message_names_five_fields_at_most(caplog: pytest.LogCaptureFixture) -> None:
    schema = openapi_schema()
    fields = schema["properties"]["status"]["properties"]
    for name in list(fields)[:7]:
        del fields[name]
    world = World(document(schema))
    world.run()
    assert "and 2 more fields from jobs" in caplog.messages[0]
    assert world.missing == 7


def test_a_job_that_uses_what_is_removed_gets_one_event() -> None:
    world = World(older())
    world.submit("applied", applied=applied(network="PerJob"))
    world.submit("served-earlier", managed={"f:spec": {"f:network": {}}})
    world.submit("plain", applied=applied(suspend=False), managed={"f:spec": {"f:tfReplicaSpecs": {}}})
    world.submit("forged", applied="[" * 5000)
    world.submit("of-another-version", applied=applied("kubeflow.org/v1alpha2", network="PerJob"))
    world.submit("older-manager", managed={"f:spec": {"f:network": {}}}, version="kubeflow.org/v1alpha2")
    world.run()
    assert [(name, reason) for name, reason, _ in world.events] == [
        ("applied", "FieldsPruned"),
        ("served-earlier", "FieldsPruned"),
    ]
    assert "removes spec.network from this job" in world.events[0][2]
    world.clock.advance(600)
    world.submit("later", applied=applied(network="PerJob"))
    world.run()
    assert [name for name, _, _ in world.events] == ["applied", "served-earlier", "later"]


def test_jobs_are_listed_every_ten_minutes_at_most() -> None:
    world = World(older())
    for _ in range(10):
        world.run()
        world.clock.advance(60)
    assert world.api.count("list", "tfjobs") == 1
    world.run()
    assert world.api.count("list", "tfjobs") == 2


def test_a_standby_reports_no_events_until_it_leads() -> None:
    world = World(older())
    world.leads = False
    world.submit("job", applied=applied(network="PerJob"))
    world.run()
    assert (world.events, world.missing) == ([], 1)
    world.leads = True
    world.run()
    assert len(world.events) == 1


@pytest.mark.parametrize(
    "answer", [api_error(403, "Forbidden", "no"), api_error(404, "NotFound"), b"<html>", b"{}", b"[" * 10_000]
)
def test_without_an_answer_the_log_shows_that_nothing_is_known(
    answer: bytes | KubeError, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(answer)
    assert [world.run(), world.run()] == [60.0, 60.0]
    (message,) = caplog.messages
    assert message.startswith("it is unknown whether the CRD of TFJobs has all fields of this release")
    assert world.missing is None


def test_a_list_that_fails_is_repeated_at_the_next_check() -> None:
    world = World(older())
    world.submit("job", applied=applied(network="PerJob"))
    world.api.fail("list", "tfjobs", api_error(503), times=1)
    assert world.run() == 60.0
    assert world.events == []
    world.run()
    assert len(world.events) == 1


def test_the_chart_s_test_asks_the_same_question() -> None:
    fetch: Callable[[str], bytes] = World(older()).fetch
    assert missing_fields_of(fetch) == ("spec.network",)
