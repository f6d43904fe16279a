"""Which failures of a request a launch outlives, while the API server restarts."""

import threading
from pathlib import Path
from typing import cast

import pytest

from hack.sequential_client import api_error
from tests.support.clock import FakeClock
from tests.support.failing import FailsAtFirst
from tfoperator.base.clock import StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ForbiddenError, TransportError, UnauthorizedError
from tfoperator.kube.protocol.retry import STARTING_SECONDS
from tfoperator.launcher import LaunchContext
from tfoperator.launcher.container.backend import Launch, Mailbox
from tfoperator.launcher.core.context import RetryPolicy
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls

DOWN = TransportError("connection refused")
POLICY = RetryPolicy(attempts=50, initial=1.0, maximum=1.0, jitter=0.0)


class SoonerClock(FakeClock):
    """Virtual time in which every wait ends at once, at its deadline."""

    def wait_until(self, condition: threading.Condition, deadline: float | None) -> bool:
        assert deadline is not None
        self.advance(max(0.0, deadline - self.monotonic()))
        return False


@pytest.fixture
def clock() -> FakeClock:
    return SoonerClock()


@pytest.fixture
def calls(tmp_path: Path, clock: FakeClock) -> ApiCalls:
    context = LaunchContext(tell=lambda _: None, clock=clock, api_retry=POLICY)
    launch = Launch("step", "r", context, StopSignal(), WorkDirectory(tmp_path), Mailbox(clock))
    return ApiCalls(cast(Client, None), "default", launch)


@pytest.mark.parametrize("code", [403, 401])
def test_an_api_server_that_has_just_started_may_refuse_requests(calls: ApiCalls, code: int) -> None:
    starting = FailsAtFirst(DOWN, *[api_error(code)] * 5)
    assert calls.patiently("create", starting) == "done"


def test_a_refusal_is_part_of_an_outage_that_an_earlier_request_has_seen(calls: ApiCalls, clock: FakeClock) -> None:
    assert calls.patiently("get", FailsAtFirst(DOWN)) == "done"
    assert calls.patiently("create", FailsAtFirst(api_error(403))) == "done"
    clock.advance(STARTING_SECONDS)
    with pytest.raises(ForbiddenError):
        calls.patiently("create", FailsAtFirst(api_error(403)))


def test_a_refusal_without_an_outage_is_final(calls: ApiCalls) -> None:
    forbidden = FailsAtFirst(api_error(403))
    with pytest.raises(ForbiddenError):
        calls.patiently("create", forbidden)
    revoked = FailsAtFirst(*[api_error(401)] * 5)
    with pytest.raises(UnauthorizedError):
        calls.patiently("create", revoked)
    assert len(revoked.errors) == 2, "a token that was rotated is read again"


def test_a_refusal_that_stays_ends_the_launch_when_the_server_has_had_time_to_start(
    calls: ApiCalls, clock: FakeClock
) -> None:
    began = clock.monotonic()
    with pytest.raises(ForbiddenError):
        calls.patiently("create", FailsAtFirst(DOWN, *[api_error(403)] * 100))
    assert clock.monotonic() - began <= STARTING_SECONDS + 1
