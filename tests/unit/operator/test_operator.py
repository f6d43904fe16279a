import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest

from hack.faults.oracle.history import conditions_in
from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tests.support.operator_process import ask, free_port
from tests.unit.operator.test_crd_check import APPLIED, applied, older
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import SchedulingRules
from tfoperator.controller.pods.gang import VOLCANO_POD_GROUPS
from tfoperator.controller.pods.scheduling_rules import AllowedNames
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.kube.protocol.resources import EVENTS, LEASES, PODS
from tfoperator.operator import Operator, Options, Reach, process
from tfoperator.operator.refusals import Refusals
from tfoperator.servers.http.limits import Address

TIMES = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.1}
ELECT = Options(leader_elect=True, **{f"leader_elect_{what}": seconds for what, seconds in TIMES.items()})


Start = Callable[..., Operator]


def submit(api: FakeApi, name: str = "job", **replicas: Any) -> None:
    api.put(TFJOBS, namespaced(tfjob(name, **replicas)))


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def start(api: FakeApi) -> Iterator[Start]:
    started: list[Operator] = []

    def start(options: Options | None = None, **how: Any) -> Operator:
        operator = Operator(api, options, **how)
        started.append(operator)
        operator.start()
        return operator

    yield start
    for operator in started:
        operator.stop(10)


def test_no_pod_is_made_before_every_cache_is_complete(api: FakeApi, start: Start) -> None:
    submit(api, Worker=1)
    release = threading.Event()

    def hold(call: Call) -> None:
        if call.resource == "pods" and call.verb in ("list", "watch"):
            release.wait(60)

    api.react(hold)
    operator = start()
    eventually(lambda: api.count("watch", "services") or api.count("list", "services"), what="the other caches fill")
    assert not operator.is_ready
    assert api.names(PODS) == []
    release.set()
    eventually(lambda: api.names(PODS) == ["job-worker-0"], what="the pod")


def test_it_can_be_stopped_at_any_moment(api: FakeApi, start: Start) -> None:
    api.fail("list", "tfjobs", api_error(404, "NotFound"), times=1000)
    waiting = start()
    eventually(lambda: api.count("list", "tfjobs") > 0)
    assert waiting.stop(60)
    api.behave()
    filling = start()
    assert filling.stop(60)
    never_started = Operator(api)
    assert never_started.stop(60)


def test_a_queue_that_a_reload_allows_is_used_at_once(api: FakeApi, start: Start) -> None:
    def rules(*queues: str) -> Options:
        return Options(gang_scheduler_name="volcano", scheduling=SchedulingRules(queues=AllowedNames(queues)))

    def queue() -> str:
        return ", ".join(group["spec"]["queue"] for group in api.objects(VOLCANO_POD_GROUPS))

    operator = start(rules("first"))
    submit(api, Worker=1, run_policy={"schedulingPolicy": {"queue": "first"}})
    eventually(lambda: queue() == "first")
    eventually(lambda: "startTime" in str(api.objects(TFJOBS)), what="the job has started")
    api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "second"}}}})
    eventually(
        lambda: "is not allowed in namespace" in str(api.objects(TFJOBS)), within=15, what="its spec is not valid now"
    )
    operator.reload(rules("first", "second"))
    eventually(lambda: queue() == "second", within=5)


def test_an_api_server_that_is_upgraded_later_is_asked_to_restart_in_place(api: FakeApi, start: Start) -> None:
    answers = [b'{"major": "1", "minor": "34"}', b"", b'{"major": "1", "minor": "35"}']

    def fetch(path: str) -> bytes:
        assert path == "/version"
        return answers.pop(0)

    clock = FakeClock()
    operator = start(reach=Reach(fetch=fetch), clock=clock)
    eventually(lambda: len(answers) == 1, what="the version is unknown at the second look")
    assert not operator._parts._plan_options.restart_rules

    def is_used_later() -> bool:
        clock.advance(601)
        return operator._parts._plan_options.restart_rules

    eventually(is_used_later, what="the third answer counts")


def test_of_two_replicas_one_leads_and_the_other_takes_over_at_once(api: FakeApi, start: Start) -> None:
    first = start(ELECT)
    eventually(lambda: first.is_leader)
    second = start(ELECT)
    eventually(lambda: second.is_ready, what="the standby's caches are warm")
    submit(api, "a", Worker=1)
    eventually(lambda: api.names(PODS) == ["a-worker-0"])
    assert not second.is_leader
    assert first.stop(60)
    eventually(lambda: second.is_leader)
    submit(api, "b", Worker=1)
    eventually(lambda: api.names(PODS) == ["a-worker-0", "b-worker-0"])


def test_a_standby_writes_nothing_but_its_claim(api: FakeApi, start: Start) -> None:
    first = start(ELECT)
    eventually(lambda: first.is_leader)
    submit(api, Worker=1)
    eventually(lambda: api.names(PODS) == ["job-worker-0"])
    standby_calls: list[Call] = []

    class Recording(FakeApi):
        """The same server, through a client that is listened to."""

        def __getattribute__(self, name: str) -> Any:
            if name not in ("create", "patch", "delete", "replace"):
                return getattr(api, name)

            def call(resource: Any, *rest: Any, **options: Any) -> Any:
                if resource is not LEASES:
                    standby_calls.append(Call(name, resource.plural))
                return getattr(api, name)(resource, *rest, **options)

            return call

    standby = Operator(Recording(), ELECT)
    standby.start()
    eventually(lambda: standby.is_ready)
    submit(api, "another", Worker=2)
    eventually(lambda: len(api.names(PODS)) == 3)
    assert standby.stop(60)
    assert standby_calls == []


def amid_a_sync(api: FakeApi, start: Start, options: Options) -> tuple[Operator, threading.Event]:
    """An operator, one of whose syncs waits in the creation of a pod until the event is set."""
    asked, release = threading.Event(), threading.Event()

    def hold(call: Call) -> None:
        if (call.verb, call.resource) == ("create", "pods"):
            asked.set()
            release.wait(20)

    api.react(hold)
    operator = start(options)
    submit(api, Worker=1)
    assert asked.wait(60)
    return operator, release


def lose_the_lease(api: FakeApi) -> None:
    """The server is not to be had for the lease any more."""
    for verb in ("replace", "get"):
        api.fail(verb, "leases", api_error(500), times=100_000)


def test_the_lease_is_not_given_back_while_a_sync_outlives_its_grace(api: FakeApi, start: Start) -> None:
    operator, release = amid_a_sync(api, start, msgspec.structs.replace(ELECT, shutdown_grace_period=0.1))
    assert not operator.stop()
    renewals = api.count("replace", "leases")
    eventually(lambda: api.count("replace", "leases") > renewals + 1, what="the lease is renewed on")
    assert [lease["spec"]["holderIdentity"] for lease in api.objects(LEASES)] == [operator.identity]
    release.set()
    eventually(lambda: not api.objects(LEASES)[0]["spec"]["holderIdentity"], what="the lease is given back")


def test_a_lease_that_is_lost_while_a_sync_finishes_is_no_orderly_end(api: FakeApi, start: Start) -> None:
    operator, release = amid_a_sync(api, start, ELECT)
    lose_the_lease(api)
    assert not operator.stop()
    release.set()


def test_a_cache_that_can_not_be_kept_is_a_failure(api: FakeApi, start: Start) -> None:
    operator = start()
    eventually(lambda: operator.is_ready)

    def broken(pod: Any) -> list[str]:
        raise ValueError("a bug")

    [pods] = operator._parts.informers.pods.informers
    pods.indexer._functions["broken"] = broken
    submit(api, Worker=1)
    eventually(lambda: operator.failure, what="the failure is noticed")
    assert "a bug" in operator.failure
    assert not operator.is_ready


def test_an_operator_that_has_failed_is_not_healthy(api: FakeApi) -> None:
    port = free_port()
    options = Options(health_probe_bind_address=Address("127.0.0.1", port), metrics_bind_address=None)
    operator = Operator(api, options)
    with ExitStack() as cleanup:
        process._serve(options, operator, Refusals(RequestObserver()), cleanup)
        assert ask(port, "/healthz") == (200, "ok\n")
        operator._fail("the lease was lost")
        assert ask(port, "/healthz") == (503, "the lease was lost\n")
    assert operator.stop(60)


def test_without_kueues_objects_jobs_without_a_queue_run_and_those_in_queues_wait(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tfoperator.operator.operator._QUEUES_SECONDS", 0.2)
    for verb in ("list", "watch"):
        api.fail(verb, "workloads", api_error(404, "NotFound"), times=100_000)
    submit(api, Worker=1)
    waits = namespaced(tfjob("queued", Worker=1))
    waits["metadata"]["labels"] = {QUEUE_LABEL: "team"}
    api.put(TFJOBS, waits)
    start(Options(kueue=True))
    eventually(lambda: api.names(PODS) == ["job-worker-0"], what="the pod of the job without a queue")

    def reason() -> str:
        (job,) = [job for job in api.objects(TFJOBS) if job["metadata"]["name"] == "queued"]
        admitted = [each for each in conditions_in(job.get("status", {})) if each["type"] == "Admitted"]
        return str(admitted[0]["reason"]) if admitted else ""

    eventually(lambda: reason() == "NoAnswer", what="the other says that Kueue does not answer")
    assert "Kueue 0.15 or later is not installed" in caplog.text
    api.behave()
    eventually(lambda: api.names(WORKLOADS), within=60, what="its Workload, once Kueue is installed")
    assert api.names(PODS) == ["job-worker-0"]


# A CRD that is older than the operator.


def reach_of(document: Callable[[], bytes]) -> Reach:
    def fetch(path: str) -> bytes:
        return document() if path.startswith("/openapi/") else b"{}"

    return Reach(fetch=fetch, checks_crd=True)


def test_a_leader_reports_an_older_crd_on_the_jobs_that_lose_fields_by_it(
    api: FakeApi, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfoperator.operator.crd_check._CONFIRM_SECONDS", 0.05)
    job = namespaced(tfjob("job", Worker=1))
    job["metadata"]["annotations"] = {APPLIED: applied(network="PerJob")}
    api.put(TFJOBS, job)
    operator = start(Options(leader_elect=True), reach=reach_of(older))

    def reasons() -> list[str]:
        return [event["reason"] for event in api.objects(EVENTS)]

    eventually(lambda: "FieldsPruned" in reasons(), what="the event")
    eventually(lambda: b"tfoperator_crd_missing_fields 1.0" in operator.metrics.render(), what="the metric")


def test_an_answer_about_the_crd_that_never_comes_delays_neither_work_nor_the_end(api: FakeApi, start: Start) -> None:
    asked, release = threading.Event(), threading.Event()

    def hang() -> bytes:
        asked.set()
        release.wait(60)
        return older()

    operator = start(reach=reach_of(hang))
    submit(api, Worker=1)
    eventually(lambda: api.names(PODS) == ["job-worker-0"], what="the pod")
    assert asked.wait(60)
    try:
        assert operator.stop(10)
        assert not release.is_set()
    finally:
        release.set()
