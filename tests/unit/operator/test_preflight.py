import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi, api_error
from tests.support.threads import InThread
from tfoperator.base.clock import StopSignal
from tfoperator.controller import gang_scheduler
from tfoperator.kube.protocol.errors import ConnectionRefused
from tfoperator.operator.preflight import await_resources, has_restart_rules, needed_resources


def test_a_server_that_serves_tfjobs_costs_one_small_list() -> None:
    api = FakeApi()
    assert await_resources(api, ("",), StopSignal(), FakeClock())
    assert [(call.verb, call.resource) for call in api.calls] == [("list", "tfjobs")]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (api_error(404, "NotFound", "the server could not find the requested resource"), "manifests/base/crd.yaml"),
        (ConnectionRefused("https://api:6443: connection refused"), "does not answer"),
        (api_error(401, "Unauthorized"), "credentials"),
        (api_error(403, "Forbidden", "cannot list tfjobs"), "may not list TFJobs"),
        (api_error(503), "can't be listed"),
    ],
)
def test_what_is_missing_is_told_and_waited_for(error: Exception, words: str, caplog: pytest.LogCaptureFixture) -> None:
    api, clock, stop = FakeApi(), FakeClock(), StopSignal()
    api.fail("list", "tfjobs", error, times=8)
    call = InThread(lambda: await_resources(api, ("",), stop, clock))
    waited = 0.0
    while call.running:
        clock.pass_time(0.5)
        waited += 0.5
        asked = len(api.calls)
        # Nothing moves faster than the clock.
        assert asked <= 2 + waited / 0.5
        if asked == 8:
            clock.wait_for_waiters()
            clock.advance(10)
            break
    assert call.result() is True
    assert waited >= 30
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert words in warnings[0]


@pytest.mark.parametrize(
    ("name", "missing", "component"),
    [
        ("volcano", ["podgroups.scheduling.volcano.sh"], "volcano"),
        ("x", ["podgroups.scheduling.x-k8s.io"], "scheduler-plugins"),
        ("kubernetes", ["scheduling.k8s.io/v1beta1", "GenericWorkload=true"], ""),
    ],
)
def test_a_gang_scheduler_needs_its_pod_groups_and_says_what_is_missing(
    name: str, missing: list[str], component: str, caplog: pytest.LogCaptureFixture
) -> None:
    api, clock, stop = FakeApi(), FakeClock(), StopSignal()
    needs = needed_resources(gang_scheduler(name))
    api.fail("list", "podgroups", api_error(404, "NotFound"))
    api.fail("list", "priorityclasses", api_error(403, "Forbidden", "no"))
    call = InThread(lambda: await_resources(api, ("a", "b"), stop, clock, needs))
    for _ in range(2 if component else 1):
        clock.pass_time(1)
    assert call.result() is True
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    for words in (*missing, f"--gang-scheduler-name={name}"):
        assert words in warnings[0]
    assert [f"manifests/components/{component}/rbac.yaml" in warning for warning in warnings[1:]] == [True] * bool(
        component
    )
    needed = [*((kind, namespace) for kind in ("tfjobs", "podgroups") for namespace in "ab"), ("priorityclasses", "")]
    expected = needed if component else needed[:-1]
    assert [(call.resource, call.namespace) for call in api.calls][-len(expected) :] == expected


def test_a_stop_ends_the_waiting() -> None:
    api, clock, stop = FakeApi(), FakeClock(), StopSignal()
    api.fail("list", "tfjobs", api_error(404), times=1000)
    call = InThread(lambda: await_resources(api, ("",), stop, clock))
    clock.wait_for_waiters()
    stop.set()
    assert call.result() is False


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        (b'{"major": "1", "minor": "34"}', False),
        (b'{"major": "1", "minor": "34+"}', False),
        (b'{"major": "1", "minor": "35"}', True),
        (b'{"major": "2", "minor": "0"}', True),
        # For other versions, or if the version may not be read, jobs are made as they ask.
        (b'{"major": "1", "minor": "x"}', True),
        (b"[]", True),
        (b"", True),
        (api_error(403, "Forbidden"), True),
    ],
)
def test_kubelets_restart_by_rules_from_a_release_on(answer: bytes | Exception, rules: bool) -> None:
    def ask(path: str) -> bytes:
        assert path == "/version"
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert has_restart_rules(ask) is rules
