"""Refusals of the API server to create: the condition names each replica that waits, and is written only once."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.support.controller_harness import Harness
from tests.support.fake_api import Call, api_error
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import PODS, SERVICES


def message(harness: Harness) -> str:
    condition = harness.condition("Running")
    return f"{condition.get('status')}: {condition.get('message')}"


def refuse_pods(harness: Harness, words: Iterator[str], code: int = 403, *, above: int = 0) -> None:
    """Refuse pods, once there are some, with a different message each time."""

    def reaction(call: Call) -> None:
        if (call.verb, call.resource) == ("create", "pods") and len(harness.api.names(PODS)) >= above:
            raise api_error(code, "Forbidden", next(words))

    harness.api.react(reaction)


def quota(used: int) -> str:
    return f'pods "job-{used}" is forbidden: exceeded quota: few, requested: pods=1, used: pods={used}, limited: pods=2'


def test_a_quota_without_room_is_the_reason_of_each_replica_without_a_pod(harness: Harness) -> None:
    refuse_pods(harness, map(quota, count(2)), above=2)
    harness.submit(PS=1, Worker=4)
    harness.sync(times=4)
    text = message(harness)
    assert text.startswith("False: TFJob ns/job does not run yet. 0/5 replicas ready; ")
    assert "Worker-1, Worker-2 and Worker-3 wait: QuotaExceeded: ResourceQuota few has no room for its pod" in text
    assert ". Next: wait until other pods end, request less, or ask an administrator for a larger quota." in text


def test_what_is_refused_again_with_other_numbers_writes_no_status_and_asks_no_more_than_before(
    harness: Harness,
) -> None:
    refuse_pods(harness, map(quota, count(2)), above=2)
    harness.submit(PS=1, Worker=4)
    harness.sync(times=6)
    for _ in range(5):
        assert harness.calls_of_sync() == [("create", "pods")]


def test_a_webhook_that_names_each_request_writes_no_status_each_time(harness: Harness) -> None:
    refuse_pods(harness, (f'admission webhook "w" denied the request: no, request a{i}' for i in count()), 400)
    harness.submit(Worker=1)
    harness.sync(times=3)
    assert "AdmissionDenied: the admission webhook w refuses its pod: no, request a" in message(harness)
    assert harness.calls_of_sync() == [("create", "pods")]


def test_foreign_objects_with_names_of_replicas_are_named(harness: Harness) -> None:
    """`clash.yaml`: a service with the name of one replica, a pod with the name of another replica."""
    foreign: dict[str, Any] = {"metadata": {"namespace": "ns", "uid": "s"}}
    harness.api.put(SERVICES, {"metadata": {**foreign["metadata"], "name": "job-worker-0", "uid": "s"}})
    harness.api.put(PODS, {"metadata": {**foreign["metadata"], "name": "job-worker-1", "uid": "p"}})
    harness.submit(Worker=2)
    harness.sync(times=3)
    text = message(harness)
    taken = "has a name that this job needs: this {} does not belong to this job."
    assert f"Worker-0 waits: NameTaken: Service ns/job-worker-0 {taken.format('Service')} " in text
    assert f"Worker-1 waits: NameTaken: Pod ns/job-worker-1 {taken.format('Pod')} Next: " in text
    harness.api.remove(SERVICES, "ns", "job-worker-0")
    harness.api.remove(PODS, "ns", "job-worker-1")
    harness.sync(times=2)
    assert "NameTaken" not in message(harness)


def test_a_service_that_is_refused_holds_up_its_pod(harness: Harness) -> None:
    amounts = "requested: services=1, used: services=0, limited: services=0"
    words = f'services "job-worker-0" is forbidden: exceeded quota: few, {amounts}'
    harness.api.fail("create", "services", api_error(403, "Forbidden", words), times=9)
    harness.submit(Worker=2)
    harness.sync(times=2)
    assert "Worker-0 and Worker-1 wait: QuotaExceeded: ResourceQuota few has no room for its service" in message(
        harness
    )


@pytest.mark.parametrize("error", [TransportError("reset"), api_error(503, "ServiceUnavailable", "later")])
def test_an_outage_is_no_reason_of_a_replica(harness: Harness, error: Exception) -> None:
    harness.api.fail("create", "pods", error, times=2)
    harness.submit(Worker=1)
    harness.sync(times=2)
    assert harness.condition("Running") == {}


def test_the_reason_goes_when_the_pod_can_be_made(harness: Harness) -> None:
    harness.api.fail("create", "pods", api_error(403, "Forbidden", quota(2)), times=2)
    harness.submit(Worker=2)
    harness.sync(times=2)
    assert "Worker-0 and Worker-1 wait: QuotaExceeded" in message(harness)
    harness.sync(times=2)
    assert message(harness) == "False: TFJob ns/job does not run yet. 0/2 replicas ready."


def test_a_new_leader_tries_itself_and_writes_nothing_meanwhile(harness: Harness) -> None:
    refuse_pods(harness, map(quota, count(2)))
    uid = harness.submit(Worker=3)["metadata"]["uid"]
    harness.sync(times=4)
    before = harness.condition("Running")
    assert "Worker-0, Worker-1 and Worker-2 wait" in before["message"]
    harness.controller._ledger.memory.forget(uid)  # a new process remembers nothing
    for _ in range(3):
        assert harness.calls_of_sync() == [("create", "pods")]
    assert harness.condition("Running") == before
