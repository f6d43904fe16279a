from __future__ import annotations

import threading

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi, api_error
from tfoperator.clock import StopSignal
from tfoperator.kube.errors import ConnectionRefused
from tfoperator.operator.preflight import await_resources


def test_a_server_that_serves_tfjobs_costs_one_small_list() -> None:
    api = FakeApi()
    assert await_resources(api, ("",), StopSignal(), FakeClock())
    assert [(call.verb, call.resource) for call in api.calls] == [("list", "tfjobs")]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (api_error(404, "NotFound", "the server could not find the requested resource"), "manifests/base/crd.yaml"),
        (ConnectionRefused("https://api:6443: connection refused"), "can't be reached"),
        (api_error(401, "Unauthorized"), "credentials"),
        (api_error(403, "Forbidden", "cannot list tfjobs"), "may not list TFJobs"),
        (api_error(503), "can't be listed"),
    ],
)
def test_what_is_missing_is_said_once_and_waited_for_without_spinning(
    error: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    api, clock, stop = FakeApi(), FakeClock(), StopSignal()
    api.fail("list", "tfjobs", error, times=8)
    result: list[bool] = []
    thread = threading.Thread(target=lambda: result.append(await_resources(api, ("",), stop, clock)))
    thread.start()
    waited = 0.0
    while not result:
        clock.wait_for_waiters()
        clock.advance(0.5)
        waited += 0.5
        asked = len(api.calls)
        # Nothing moves faster than the clock.
        assert asked <= 2 + waited / 0.5
        if asked == 8:
            eventually(lambda: clock.monotonic() and (result or _waits(clock)))
            clock.advance(10)
            break
    thread.join(10)
    assert result == [True]
    assert waited >= 30
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warnings) == 1
    assert words in warnings[0]


def _waits(clock: FakeClock) -> bool:
    clock.wait_for_waiters()
    return True


def test_a_stop_ends_the_waiting() -> None:
    api, clock, stop = FakeApi(), FakeClock(), StopSignal()
    api.fail("list", "tfjobs", api_error(404), times=1000)
    result: list[bool] = []
    thread = threading.Thread(target=lambda: result.append(await_resources(api, ("",), stop, clock)))
    thread.start()
    clock.wait_for_waiters()
    stop.set()
    thread.join(10)
    assert result == [False]


def test_each_namespace_is_asked_for() -> None:
    api = FakeApi()
    await_resources(api, ("a", "b"), StopSignal(), FakeClock())
    assert [call.namespace for call in api.calls] == ["a", "b"]
