from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tfoperator.events import ObjectReference
from tfoperator.events.correlator import MAX_MESSAGE, CorrelatedEvent, Correlator, Occurrence, bounded

JOB = ObjectReference("kubeflow.org/v1", "TFJob", "team", "mnist", "uid-1")
PREFIX = "(combined from similar events): "


class Source:
    """Feeds a correlator on a virtual clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.correlator = Correlator()

    def report(self, message: str = "created", reason: str = "Created", **about: Any) -> CorrelatedEvent | None:
        regarding, event_type = about.get("regarding", JOB), about.get("event_type", "Normal")
        occurrence = Occurrence(regarding, event_type, reason, message, self.clock.now(), self.clock.monotonic())
        return self.correlator.correlate(occurrence)

    def written(self, message: str = "created", **more) -> CorrelatedEvent:
        event = self.report(message, **more)
        assert event is not None, "filtered as spam"
        return event


@pytest.fixture
def source() -> Source:
    return Source()


def test_its_name_is_the_objects_with_the_time_in_hex_that_of_no_other_and_legal(source: Source) -> None:
    nanoseconds = int(source.clock.now().timestamp()) * 10**9
    assert source.written("one").name == f"mnist.{nanoseconds:x}" != source.written("two").name
    regarding = ObjectReference("v1", "Pod", "team", ("a" * 235) + "-." + "b" * 16, "uid")
    name = source.written(regarding=regarding).name
    assert len(name) <= 253
    stem, _, stamp = name.rpartition(".")
    assert stem == "a" * 235
    int(stamp, 16)


def test_the_same_event_is_only_counted_however_often_it_comes(source: Source) -> None:
    first = source.written()
    source.clock.advance(60)
    events = [source.written() for _ in range(20)]
    assert [event.count for event in events] == [*range(2, 22)]
    assert {event.last.message for event in events} == {"created"}
    assert {event.name for event in events} == {first.name}
    assert (events[-1].first_seen, events[-1].last.at) == (first.first_seen, source.clock.now())


def test_from_the_tenth_on_distinct_messages_are_combined_and_counted_on_one_event(source: Source) -> None:
    events = [source.written(f"message {n}") for n in range(15)]
    assert not any(event.last.message.startswith(PREFIX) for event in events[:9])
    assert [event.last.message for event in events[9:]] == [f"{PREFIX}message {n}" for n in range(9, 15)]
    assert [event.count for event in events[9:]] == [1, 2, 3, 4, 5, 6]
    assert len({event.name for event in events[9:]}) == 1
    # Those with events of their own go on being counted there.
    again = source.written("message 3")
    assert (again.name, again.count, again.last.message) == (events[3].name, 2, "message 3")


def test_events_with_different_reasons_or_about_different_containers_stay_apart(source: Source) -> None:
    events = [source.written(f"message {n}", reason=f"Reason{n}") for n in range(20)]
    assert {event.count for event in events} == {1}
    assert not any(event.last.message.startswith(PREFIX) for event in events)
    containers = [msgspec.structs.replace(JOB, field_path=f"spec.containers{{{name}}}") for name in ("one", "two")]
    first, second = (source.written(regarding=container) for container in containers)
    assert first.name != second.name
    assert second.count == 1


@pytest.mark.parametrize(("quiet", "message"), [(599, PREFIX + "message 9"), (601, "message 9")])
def test_events_are_similar_until_ten_minutes_after_the_last_of_them(source: Source, quiet: int, message: str) -> None:
    for number in range(9):
        source.written(f"message {number}")
        source.clock.advance(quiet if quiet < 600 or number == 8 else 0)
    event = source.written("message 9")
    assert (event.last.message, event.count) == (message, 1)


def test_a_message_is_bounded_and_a_combined_one_too(source: Source) -> None:
    long = "x" * MAX_MESSAGE
    for number in range(9):
        source.written(f"message {number}")
    message = source.written(long).last.message
    assert len(message) == MAX_MESSAGE
    assert message.startswith(PREFIX)
    assert message.endswith("…")
    assert bounded("no folder /tmp/x\udcff") == "no folder /tmp/x\\udcff"
    assert bounded("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    assert bounded("x" * (MAX_MESSAGE + 1)) == "x" * (MAX_MESSAGE - 1) + "…"


def test_an_object_may_burst_25_events_and_then_one_in_five_minutes(source: Source) -> None:
    assert all(source.report() for _ in range(25))
    assert source.report() is None
    source.clock.advance(299)
    assert source.report() is None
    source.clock.advance(2)
    assert source.written().count == 28
    assert source.report() is None


def test_reasons_and_messages_share_the_allowance_of_their_object_and_type_with_no_other(source: Source) -> None:
    results = [source.report(f"message {n}", reason=f"Reason{n}") for n in range(26)]
    assert results[:25].count(None) == 0
    assert results[25] is None
    assert source.report(event_type="Warning") is not None
    assert source.report(regarding=ObjectReference("kubeflow.org/v1", "TFJob", "team", "mnist", "uid-2")) is not None


def test_what_is_remembered_is_bounded(source: Source) -> None:
    for number in range(5000):
        source.report(regarding=ObjectReference("v1", "Pod", "team", f"pod-{number}", str(number)))
    correlator = source.correlator
    assert len(correlator._similar) == len(correlator._counted) == len(correlator._allowances) == 4096
