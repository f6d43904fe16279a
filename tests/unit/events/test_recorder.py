import logging
import random
import threading
from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tests.support.threads import run_at_once
from tfoperator.events import EventRecorder, ObjectReference
from tfoperator.kube.protocol.errors import (
    ConfigError,
    ForbiddenError,
    Status,
    StatusCause,
    StatusDetails,
    TransportError,
)
from tfoperator.kube.protocol.resources import EVENTS

JOB = ObjectReference("kubeflow.org/v1", "TFJob", "team", "mnist", "uid-1")
NAMES = {"namespace": "team", "name": "mnist", "uid": "uid-1"}


@pytest.fixture
def recorder(api: FakeApi, clock: FakeClock) -> Iterator[EventRecorder]:
    recorder = EventRecorder(api, component="tfjob-controller", host="host-1", clock=clock, rng=random.Random(1))
    yield recorder
    assert recorder.stop()


def begin(recorder: EventRecorder, *reasons: str) -> None:
    """Start it, and report an event about the job for each reason."""
    recorder.start()
    for reason in reasons:
        recorder.event(JOB, "Normal", reason, reason.lower())


def write(recorder: EventRecorder, *reasons: str) -> None:
    """As `begin`, and stop it when all has been written."""
    begin(recorder, *reasons)
    assert recorder.stop()


def seen(recorder: EventRecorder, pod: str) -> None:
    recorder.event(ObjectReference("v1", "Pod", "team", f"pod-{pod}", pod), "Normal", "Seen", "seen")


class Gate:
    """Holds every request to the API server until it is opened."""

    def __init__(self, api: FakeApi) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        api.react(self._pass)

    def _pass(self, call: Call) -> None:
        self.reached.set()
        assert self._open.wait(60)

    def open(self) -> None:
        self._open.set()


def test_an_event_is_written_as_core_v1(recorder: EventRecorder, api: FakeApi, clock: FakeClock) -> None:
    clock.advance(0.75)
    recorder.event(JOB, "Warning", "JobFailed", "worker 1 exited with 1")
    write(recorder)
    [event] = api.objects(EVENTS)
    name = event["metadata"]["name"]
    assert name.startswith("mnist.")
    for server_side in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        del event["metadata"][server_side]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team"},
        "involvedObject": {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **NAMES},
        "type": "Warning",
        "reason": "JobFailed",
        "message": "worker 1 exited with 1",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "tfjob-controller", "host": "host-1"},
        "reportingComponent": "tfjob-controller",
        "reportingInstance": "host-1",
    }


@pytest.mark.parametrize("expired", [False, True])
def test_a_repeated_event_is_patched_with_its_count_and_time_or_created_again_where_the_server_has_expired_it(
    recorder: EventRecorder, api: FakeApi, clock: FakeClock, expired: bool
) -> None:
    begin(recorder, "Created")
    name = eventually(lambda: api.names(EVENTS))[0]
    if expired:
        api.remove(EVENTS, "team", name)
    clock.advance(90)
    recorder.event(JOB, "Normal", "Created", "created")
    assert recorder.stop()
    [event] = api.objects(EVENTS)
    assert (event["metadata"]["name"], event["count"]) == (name, 2)
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["lastTimestamp"] == "2026-01-01T00:01:30Z"
    assert (api.count("create"), api.count("patch")) == (1 + expired, 1)


def test_an_event_about_a_node_lives_in_default_and_a_long_one_is_cut(recorder: EventRecorder, api: FakeApi) -> None:
    recorder.event(ObjectReference("v1", "Node", name="node-1"), "Normal", "Seen", "x" * 5000)
    write(recorder)
    [event] = api.objects(EVENTS)
    assert (event["metadata"]["namespace"], len(event["message"])) == ("default", 1024)


@pytest.mark.parametrize("error", [*map(api_error, (400, 403, 404, 409, 422, 429, 500, 503)), ConfigError("no plugin")])
def test_any_answer_of_the_server_is_final_and_so_is_a_broken_configuration(
    recorder: EventRecorder, api: FakeApi, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("create", "events", error, times=100)
    write(recorder, "Created", "Other")
    assert api.count("create") == 2
    assert str(error) in caplog.text


def test_a_namespaces_end_is_no_news(recorder: EventRecorder, api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    details = StatusDetails(causes=(StatusCause(reason="NamespaceTerminating"),))
    api.fail("create", "events", ForbiddenError(Status(403, "Forbidden", "being terminated", details)))
    api.fail("create", "events", api_error(403, "Forbidden", "no rights"), times=2)
    write(recorder, "Created", "Other")
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "no rights" in record.message
    assert "TFJob team/mnist" in record.message


def test_a_write_without_an_answer_is_tried_12_times_10_seconds_apart_the_first_pause_random(
    recorder: EventRecorder, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    api.fail("create", "events", TransportError("connection reset"), times=100)
    begin(recorder, "Created")
    due = 10 * random.Random(1).random()
    for tries in range(1, 12):
        clock.wait_for_deadline(due)
        assert api.count("create") == tries
        clock.advance(due - clock.monotonic())
        due = clock.monotonic() + 10
    eventually(lambda: "is not written: connection reset" in caplog.text)
    assert api.count("create") == 12
    assert recorder.stop()
    assert api.count("create") == 12


@pytest.mark.parametrize("arrived", [False, True])
def test_a_write_that_succeeds_at_the_second_try_or_had_done_so_before_is_neither_tried_again_nor_reported(
    recorder: EventRecorder, api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture, arrived: bool
) -> None:
    api.fail("create", "events", TransportError("connection reset"))
    if arrived:
        api.fail("create", "events", api_error(409, "AlreadyExists"))
    begin(recorder, "Created")
    clock.pass_time(10)
    eventually(lambda: api.count("create") == 2)
    assert recorder.stop()
    assert (api.count("create"), len(api.names(EVENTS))) == (2, 0 if arrived else 1)
    assert caplog.records == []


def test_stopping_ends_a_pause_and_drops_the_rest(recorder: EventRecorder, api: FakeApi, clock: FakeClock) -> None:
    api.fail("create", "events", TransportError("connection reset"), times=100)
    begin(recorder, "One", "Two", "Three")
    clock.wait_for_waiters(1)
    assert recorder.stop()
    assert api.count("create") == 1
    assert recorder.dropped == 3


def test_flushing_ends_at_the_timeout(recorder: EventRecorder, api: FakeApi, clock: FakeClock) -> None:
    gate = Gate(api)
    begin(recorder, "One", "Two", "Three")
    assert gate.reached.wait(60)
    assert not recorder.stop(timeout=0.01)
    clock.advance(1)
    gate.open()
    assert recorder.stop()
    assert api.count("create") == 1
    assert recorder.dropped == 2


def test_a_full_queue_drops_events_counts_them_and_says_so_once_per_burst(
    recorder: EventRecorder, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    for burst in (1, 2):
        for number in range(1010):
            seen(recorder, f"{burst}-{number}")
        assert recorder.dropped == 10 * burst
        assert caplog.text.count("1000 events wait") == burst
        if burst == 1:
            recorder.start()
            eventually(lambda: len(api.names(EVENTS)) == 1000)
            gate = Gate(api)
            # One event is on its way, so exactly a thousand fit into the queue behind it.
            recorder.event(JOB, "Normal", "Created", "created")
            assert gate.reached.wait(60)
    gate.open()
    assert recorder.stop()
    assert len(api.names(EVENTS)) == 2001


def test_a_thousand_events_are_written_but_no_flood_about_one_object(recorder: EventRecorder, api: FakeApi) -> None:
    recorder.start()

    def report(worker: int) -> None:
        for number in range(100):
            seen(recorder, f"{worker}-{number}")

    run_at_once(*[partial(report, worker) for worker in range(10)])
    eventually(lambda: len(set(api.names(EVENTS))) == 1000)
    for _ in range(1000):
        recorder.event(JOB, "Normal", "Created", "created")
    assert recorder.stop()
    assert api.count("create") + api.count("patch") == 1025


def test_a_bug_loses_one_event_alone(recorder: EventRecorder, api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    api.fail("create", "events", ZeroDivisionError("a bug"))
    write(recorder, "One", "Two")
    assert [event["reason"] for event in api.objects(EVENTS)] == ["Two"]
    assert "event One about TFJob team/mnist can't be sent, and is lost" in caplog.text


def test_it_starts_once_and_counts_what_comes_after_its_stop(recorder: EventRecorder, api: FakeApi) -> None:
    recorder.start()
    with pytest.raises(RuntimeError, match="started once"):
        recorder.start()
    assert recorder.stop()
    recorder.event(JOB, "Normal", "Created", "created")
    assert recorder.dropped == 1
    assert api.calls == []


def test_a_recorder_that_was_never_started_can_be_stopped(recorder: EventRecorder) -> None:
    recorder.event(JOB, "Normal", "Created", "created")
    assert recorder.stop()
    assert recorder.dropped == 1


class Busy:
    """A recorder whose events go behind other work, of which there is some until `over`."""

    def __init__(self, api: FakeApi, clock: FakeClock) -> None:
        self.over = False
        self.breaks = 0
        """As many looks find no other work."""
        self._api = api
        self.clock = clock
        self.recorder = EventRecorder(api, component="tfjob-controller", clock=clock, behind=self._behind)

    def report(self, *reasons: str, type: Literal["Normal", "Warning"] = "Normal") -> None:  # noqa: A002 - the API's name
        for reason in reasons:
            self.recorder.event(JOB, type, reason, reason.lower())

    def written(self, *reasons: str) -> bool:
        return [event["reason"] for event in self._api.objects(EVENTS)] == [*reasons]

    def _behind(self) -> bool:
        self.breaks -= 1
        return self.breaks < 0 and not self.over

    def rests(self) -> None:
        """Wait until the recorder looks again in a while, and not before."""
        self.clock.wait_for_deadline(self.clock.monotonic() + 0.1)


@pytest.fixture
def busy(api: FakeApi, clock: FakeClock) -> Iterator[Busy]:
    busy = Busy(api, clock)
    busy.recorder.start()
    yield busy
    assert busy.recorder.stop()


def test_events_wait_for_the_end_of_other_work_and_are_then_written_in_their_order(busy: Busy) -> None:
    busy.report("Created")
    busy.rests()
    busy.report("Running")
    busy.clock.advance(3)
    busy.rests()
    assert busy.written()
    busy.breaks = 1
    busy.clock.advance(0.1)
    busy.rests()
    assert busy.written("Created"), "one at a time: other work may begin again"
    busy.over = True
    busy.clock.advance(0.1)
    eventually(lambda: busy.written("Created", "Running"))


def test_they_wait_for_five_seconds_at_most_and_what_comes_later_for_as_long(busy: Busy) -> None:
    busy.report("Created")
    busy.rests()
    busy.clock.advance(5)
    eventually(lambda: busy.written("Created"))
    busy.report("Running")
    busy.rests()
    assert busy.written("Created")
    busy.clock.advance(5)
    eventually(lambda: busy.written("Created", "Running"))


def test_a_warning_is_written_at_once_with_what_its_object_has_before_it(busy: Busy, api: FakeApi) -> None:
    busy.report("Created")
    for number in range(100):
        seen(busy.recorder, str(number))
    busy.report("Running")
    busy.rests()
    busy.report("PodFailed", type="Warning")
    busy.report("Restarted")
    eventually(lambda: busy.written("Created", "Running", "PodFailed"))
    busy.rests()
    assert busy.written("Created", "Running", "PodFailed")
    busy.clock.advance(5)
    eventually(lambda: len(api.names(EVENTS)) == 104)


def test_a_change_of_the_object_leaves_its_events_in_their_order(busy: Busy) -> None:
    for version, reason in enumerate(("Created", "Running", "PodFailed")):
        regarding = msgspec.structs.replace(JOB, resource_version=str(version))
        busy.recorder.event(regarding, "Warning" if reason == "PodFailed" else "Normal", reason, reason)
    eventually(lambda: busy.written("Created", "Running", "PodFailed"))


def test_each_overflow_is_told_even_if_events_rest(busy: Busy, api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    for burst in (1, 2):
        gate = Gate(api)
        busy.report(f"Failed{burst}", type="Warning")
        assert gate.reached.wait(60)
        for number in range(1010):
            seen(busy.recorder, f"{burst}-{number}")
        assert caplog.text.count("1000 events wait") == burst
        gate.open()

        def are_written(least: int = 1000 * burst) -> bool:
            busy.clock.advance(5)  # an event that came while the last events were taken is held
            return len(api.names(EVENTS)) >= least

        eventually(are_written)
        seen(busy.recorder, f"held-{burst}")


def test_no_more_wait_than_half_of_what_the_queue_holds(busy: Busy, api: FakeApi) -> None:
    for number in range(499):
        seen(busy.recorder, str(number))
    busy.rests()
    assert api.names(EVENTS) == []
    seen(busy.recorder, "last")
    eventually(lambda: len(api.names(EVENTS)) == 500)


def test_stopping_writes_what_is_held(busy: Busy) -> None:
    busy.report("Created", "Running")
    busy.rests()
    assert busy.recorder.stop()
    assert busy.written("Created", "Running")
    assert busy.recorder.dropped == 0
