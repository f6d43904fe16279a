from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.operator import process
from tfoperator.operator.options.settings import Options
from tfoperator.operator.refusals import REFUSED_SECONDS, Refusals


class Heard(RequestObserver):
    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def request(self, method: str, host: str, code: str, seconds: float) -> None:
        self.calls.append((method, host, code, seconds))

    def rate_limiter_wait(self, method: str, host: str, seconds: float) -> None:
        self.calls.append((method, host, seconds))

    def retry(self, method: str, host: str, code: str) -> None:
        self.calls.append((method, host, code))

    def no_credential(self) -> None:
        self.calls.append(())


def test_refusals_for_minutes_are_a_problem_until_an_answer_shows_otherwise() -> None:
    clock = FakeClock()
    refusals = Refusals(RequestObserver(), clock=clock)
    refusals.request("GET", "h", "200", 0.1)
    clock.advance(1000)
    assert refusals.problem == ""
    refusals.request("GET", "h", "401", 0.1)
    clock.advance(REFUSED_SECONDS - 1)
    refusals.request("GET", "h", "401", 0.1)
    assert refusals.problem == ""
    clock.advance(1)
    problem = (
        "for 2 minutes, the operator has had no credentials, or the API server has refused them (401): replace the "
        "credentials"
    )
    assert refusals.problem == problem
    for code in ("503", "<error>"):
        refusals.request("GET", "h", code, 0.1)
        assert refusals.problem, "such an answer shows nothing"
    refusals.request("GET", "h", "403", 0.1)
    assert refusals.problem == "", "it knows who asks"
    refusals.no_credential()
    clock.advance(REFUSED_SECONDS)
    assert refusals.problem == problem


@pytest.mark.parametrize("of", ["request", "rate_limiter_wait", "retry", "no_credential"])
def test_everything_is_passed_on(of: str) -> None:
    heard = Heard()
    given: dict[str, tuple[object, ...]] = {
        "request": ("GET", "h", "401", 0.5),
        "rate_limiter_wait": ("GET", "h", 0.5),
        "retry": ("GET", "h", "429"),
        "no_credential": (),
    }
    getattr(Refusals(heard), of)(*given[of])
    assert heard.calls == [given[of]]


def test_a_process_whose_credentials_are_refused_lives_and_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: dict[str, Any] = {}
    clock = FakeClock()
    refusals = Refusals(RequestObserver(), clock=clock)
    operator: Any = SimpleNamespace(failure="", is_ready=True, takes_reports=True)
    monkeypatch.setattr(process, "_start", lambda endpoint, cleanup: None)
    monkeypatch.setattr(process, "Endpoint", lambda address, given, name: pages.update(given))
    with ExitStack() as cleanup:
        process._serve(Options(), operator, refusals, cleanup)
    assert pages["/readyz"]().body == b"ok\n"
    refusals.request("GET", "h", "401", 0.1)
    clock.advance(REFUSED_SECONDS)
    assert pages["/healthz"]().body == b"ok\n"
    assert (pages["/readyz"]().status, b"401" in pages["/readyz"]().body) == (503, True)
