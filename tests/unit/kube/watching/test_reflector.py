import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.informers.support import (
    ImpatientClock,
    Reader,
    Script,
    ScriptedStream,
    Server,
    Step,
    added,
    api_error,
    bookmark,
    deleted,
    modified,
    page,
    pod,
    synced,
)
from tfoperator.kube.protocol.errors import (
    AnswerTooLarge,
    ConnectionRefused,
    DeadlineExceeded,
    ForbiddenError,
    SilentWatch,
    TransportError,
)
from tfoperator.kube.protocol.options import LIST_ALL, WATCH_FROM_NOW, ListOptions, WatchOptions
from tfoperator.kube.protocol.verbs import ListPage
from tfoperator.kube.watching.measured_watch import ReflectorMetrics
from tfoperator.kube.watching.reflector import Reflector


@pytest.fixture(params=[1, 2, 100], ids=lambda size: f"batches of {size}", autouse=True)
def batch_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run all tests with several numbers of events that come together."""
    monkeypatch.setattr(ScriptedStream, "batch_size", request.param)
    return int(request.param)


def read(reflector: Reflector[Any], reader: Reader) -> None:
    for news in reflector:
        reader.take(news)


class Run:
    """Runs a reflector in this thread against a script, on time that flies, until the script is played."""

    def __init__(
        self,
        *,
        lists: Sequence[ListPage[Any] | Exception] = (),
        watches: Sequence[Sequence[Step] | Exception] = (),
        clock: ImpatientClock | None = None,
        seed: int = 7,
        **options: Any,
    ) -> None:
        self.script = script = Script(lists=lists, watches=watches)
        self.reader = Reader()
        clock = clock or ImpatientClock()
        self.waits = clock.waits
        options = {"use_watch_list": False, **options}
        self.reflector = Reflector(script, name="pods", clock=clock, rng=random.Random(seed), **options)
        script.at_end = self.reflector.stop
        read(self.reflector, self.reader)
        assert all(stream.closed for stream in script.streams)


REFUSED = ConnectionRefused("nobody listens")
BUSY = api_error(429, "slow down")
TOO_LARGE = api_error(504, "Timeout", reason="Timeout", cause="ResourceVersionTooLarge")
EXPIRED = api_error(410, "too old", reason="Expired")


def test_stopped_before_it_runs_it_asks_the_server_nothing() -> None:
    script = Script(lists=[page(version=1)])
    reflector = Reflector(script, name="pods")
    reflector.stop()
    assert list(reflector) == []
    assert script.list_calls == []
    assert script.watch_calls == []


def test_it_lists_and_then_follows_the_watch() -> None:
    events = [added(pod("b", 6)), modified(pod("a", 7)), deleted(pod("b", 8))]
    run = Run(lists=[page(pod("a", 3), version=5)], watches=[events])
    assert run.reader.calls == [("replace", ["a"]), ("upsert", "b"), ("upsert", "a"), ("delete", "b")]
    assert run.reader.names == ["a"]
    assert run.script.listed_versions == ["0"]
    assert run.script.watched_versions == ["5"]
    assert run.script.watch_calls[0].allow_watch_bookmarks is True
    assert run.script.watch_calls[0].send_initial_events is None


def test_a_watch_that_ends_cleanly_goes_on_at_once_at_the_version_of_its_last_event_or_bookmark() -> None:
    clock = ImpatientClock()
    watches = [[clock.pass_time(300)], [added(pod("a", 6))], [bookmark(9)], [added(pod("b", 12))]]
    run = Run(lists=[page(version=5)], watches=watches, clock=clock)
    assert len(run.script.list_calls) == 1
    assert run.script.watched_versions == ["5", "5", "6", "9"]
    assert run.reflector._last_version == "12"
    assert run.waits == []


def test_a_watch_that_breaks_goes_on_at_its_version_after_a_wait_but_one_that_brought_nothing_leads_to_a_list() -> None:
    broken, at_once = [added(pod("a", 6)), TransportError("reset")], [TransportError("undecodable")]
    lists = [page(version=5), page(version=8), page(version=9)]
    run = Run(lists=lists, watches=[broken, [], at_once, [added(pod("a", 10))]])
    assert run.script.watched_versions == ["5", "6", "8", "9"]
    assert run.script.listed_versions == ["0", "6", "8"]
    assert len(run.waits) == 3


@pytest.mark.parametrize(
    ("error", "level"),
    [(SilentWatch("no event"), "INFO"), (DeadlineExceeded("no answer"), "WARNING"), (TransportError("cut"), "WARNING")],
)
def test_a_watch_that_nothing_came_of_for_long_is_no_warning(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = ImpatientClock()
    run = Run(lists=[page(version=5)], watches=[[clock.pass_time(90), error], [added(pod("a", 6))]], clock=clock)
    assert run.reader.names == ["a"]
    assert [record.levelname for record in caplog.records if str(error) in record.getMessage()] == [level]


def test_refused_watches_are_repeated_without_a_list_ever_more_slowly_up_to_a_cap() -> None:
    run = Run(lists=[page(version=5)], watches=[*[REFUSED] * 9, [added(pod("a", 6))]])
    assert len(run.script.list_calls) == 1
    assert run.script.watched_versions == ["5"] * 10
    for wait, base in zip(run.waits, [0.8, 1.6, 3.2, 4, 4, 4, 4, 4, 4], strict=True):
        assert base <= wait <= 2 * base


@pytest.mark.parametrize("seed", range(20))
def test_after_an_outage_of_any_length_the_server_is_asked_again_within_ten_seconds(seed: int) -> None:
    cut = [added(pod("a", 6)), TransportError("cut")]
    run = Run(lists=[page(version=5)], watches=[cut, *[REFUSED] * 30], seed=seed)
    assert len(run.waits) == 31
    assert max(run.waits) < 10


def test_a_server_that_keeps_turning_requests_down_is_asked_ever_more_slowly_whatever_outage_was_before() -> None:
    run = Run(lists=[*[REFUSED] * 20, *[api_error(403, "RBAC: not loaded")] * 12])
    last_outage_wait, first, second, *_ = run.waits[19:]
    assert last_outage_wait + first + second < 15
    assert first <= 1.6
    assert all(30 <= wait <= 60 for wait in run.waits[26:])


def test_the_servers_wish_for_a_pause_is_respected_but_not_one_for_hours() -> None:
    # For example from a load balancer, which does not announce when it is over.
    busy, down = (api_error(code, "not now", retry_after=wish) for code, wish in ((429, 17), (503, 7200)))
    run = Run(lists=[busy, down, page(version=5)], watches=[busy, BUSY, [busy], [BUSY], [added(pod("a", 6))]])
    assert [run.waits[number] for number in (0, 1, 2, 4)] == [17, 60, 17, 17]
    assert len(run.waits) == 6
    assert (len(run.script.list_calls), len(run.script.watch_calls)) == (3, 5), "a busy server is not listed again"


@pytest.mark.parametrize(
    ("open_for", "least", "most"), [(35, 0.8, 1.6), (2, 4, 8)], ids=["when idle, which is no outage", "at once"]
)
def test_watches_that_a_load_balancer_cuts(open_for: float, least: float, most: float) -> None:
    clock = ImpatientClock()
    cut = [clock.pass_time(open_for), TransportError("closed in the middle of an answer")]
    run = Run(lists=[page(version=5)], watches=[cut] * 8, clock=clock)
    assert len(run.waits) == 8
    assert least <= min(run.waits[-3:])
    assert max(run.waits) <= most


def test_an_expired_watch_leads_to_a_list_at_the_last_version_first() -> None:
    watches = [[added(pod("a", 7)), EXPIRED], [added(pod("c", 10))]]
    run = Run(lists=[page(version=5), page(pod("b", 8), version=9)], watches=watches)
    assert run.script.listed_versions == ["0", "7"]
    assert run.script.watched_versions == ["5", "9"]
    assert run.reader.names == ["b", "c"]
    assert len(run.waits) == 1


@pytest.mark.parametrize("error", [*map(api_error, (0, 400, 403, 500, 503)), ValueError("nobody thought of it")])
def test_no_error_inside_a_watch_is_fatal(error: Exception) -> None:
    run = Run(lists=[page(version=5), error, page(pod("a", 6), version=6)], watches=[[error], [bookmark(7)]])
    assert run.reader.names == ["a"]
    assert run.reflector._last_version == "7"
    assert len(run.waits) == 2


def test_watches_are_asked_to_last_from_five_to_ten_minutes() -> None:
    run = Run(lists=[page(version=5)], watches=[[bookmark(6)]] * 50)
    seconds = [call.timeout_seconds for call in run.script.watch_calls]
    assert min(seconds) >= 300
    assert max(seconds) <= 600
    assert len(set(seconds)) > 10


# --- lists


def test_the_first_list_comes_in_pages_and_later_ones_only_from_a_server_that_pages_at_version_0() -> None:
    slow = api_error(504, "etcd is slow", reason="Timeout")  # which gives up no version
    run = Run(lists=[page(pod("a", 1), version=10), slow, page(version=11)], watches=[[api_error(500)], [bookmark(12)]])
    assert [call.limit for call in run.script.list_calls] == [500, 0, 0]
    assert run.script.listed_versions == ["0", "10", "10"]
    lists = [page(pod("a"), version=10, token="t1"), page(pod("b"), version=10), page(version=11)]
    run = Run(lists=lists, watches=[[api_error(500)], [bookmark(12)]])
    assert [call.limit for call in run.script.list_calls] == [500, 500, 500]


@pytest.mark.parametrize("error", [EXPIRED, TOO_LARGE])
def test_a_version_that_is_not_to_be_had_is_given_up_at_once(error: Exception) -> None:
    lists = [page(version=10), error, page(version=3), page(version=4)]
    run = Run(lists=lists, watches=[[api_error(500)], [api_error(500)], [bookmark(5)]])
    assert run.script.listed_versions == ["0", "10", "", "3"]
    assert len(run.waits) == 2


def test_a_collection_too_large_for_one_answer_is_read_in_pages_and_an_object_too_large_for_any_after_a_wait() -> None:
    lists = [AnswerTooLarge("too much"), page(pod("a"), version=10, token="t"), page(pod("b"), version=10)]
    run = Run(lists=lists, watches=[[bookmark(11)]])
    assert run.script.listed_versions == ["0", ""]
    assert [call.limit for call in run.script.list_calls] == [500, 500, 500]
    assert (run.reader.calls, run.waits) == ([("replace", ["a", "b"])], [])
    run = Run(lists=[*[AnswerTooLarge("it")] * 10, page(version=3)], watches=[[bookmark(4)]])
    assert [call.limit for call in run.script.list_calls] == [500, 500, 250, 125, 62, 31, 15, 7, 3, 1, 500]
    assert len(run.waits) == 1


def test_expired_even_at_the_newest_version_it_waits() -> None:
    run = Run(lists=[EXPIRED, EXPIRED, EXPIRED, page(version=3)], watches=[[bookmark(4)]])
    assert run.script.listed_versions == ["0", "", "", ""]
    assert len(run.waits) == 2


def test_a_relist_on_request_asks_for_the_newest_state_at_once() -> None:
    class RelistsInTheMiddle(Script):
        def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> Any:
            if len(self.watch_calls) == 1:
                reflector.relist()
            return super().watch(options)

    watches = [[bookmark(6)], [added(pod("unseen", 7))], [bookmark(10)]]
    script = RelistsInTheMiddle(lists=[page(version=5), page(pod("a", 7), version=9)], watches=watches)
    clock, reader = ImpatientClock(), Reader()
    reflector: Reflector[Any] = Reflector(script, name="pods", clock=clock, use_watch_list=False)
    script.at_end = reflector.stop
    read(reflector, reader)
    assert script.listed_versions == ["0", ""]
    assert script.watched_versions == ["5", "6", "9"]
    assert reader.names == ["a"]
    assert clock.waits == []


def test_an_error_amid_a_batch_takes_nothing_from_what_came_before_and_nothing_that_follows_counts() -> None:
    batch = [added(pod("a", 6)), bookmark(7), BUSY, added(pod("b", 8))]
    run = Run(lists=[page(version=5)], watches=[batch, [bookmark(9)]])
    assert run.reader.calls == [("replace", []), ("upsert", "a")]
    assert run.script.watched_versions == ["5", "7"]


def test_what_comes_together_is_counted_by_type_and_is_yielded_together(batch_size: int) -> None:
    metrics = Mock(spec=ReflectorMetrics)
    events = [added(pod("a", 6)), modified(pod("a", 7)), added(pod("b", 8)), bookmark(9), api_error(500)]
    run = Run(lists=[page(version=5)], watches=[events], metrics=metrics)
    assert run.reader.sizes == {1: [1, 1, 1, 1], 2: [2, 2], 100: [4]}[batch_size]
    apart = [("ADDED", 1), ("MODIFIED", 1), ("ADDED", 1), ("BOOKMARK", 1)]
    together = [("ADDED", 2), ("MODIFIED", 1), ("BOOKMARK", 1)]
    counted = [call.args for call in metrics.events_received.mock_calls]
    assert counted == [("pods", *count) for count in (together if batch_size == 100 else apart)]


def test_who_wants_the_newest_state_gets_it_by_a_list_each_time() -> None:
    watches = [[api_error(500)], [bookmark(7)]]
    run = Run(lists=[page(version=5), page(version=6)], watches=watches, newest=True, use_watch_list=True)
    assert run.script.listed_versions == ["", ""]
    assert [call.send_initial_events for call in run.script.watch_calls] == [None, None]


def test_what_is_raised_about_a_failure_ends_the_iteration_and_closes_the_watch() -> None:
    def give_up(error: Exception, delay: float) -> None:
        assert 30 > delay > 0
        raise error

    script = Script(lists=[page(version=5)], watches=[[added(pod("a", 6)), api_error(403, "no watching")]])
    reflector = Reflector[Any](script, name="pods", clock=ImpatientClock(), use_watch_list=False, on_failure=give_up)
    with pytest.raises(ForbiddenError, match="no watching"):
        list(reflector)
    assert [stream.closed for stream in script.streams] == [True]


# --- initial events by watch


def test_initial_events_are_the_whole_state_and_the_same_watch_goes_on_and_then_a_plain_one() -> None:
    initial = [added(pod("a", 3)), added(pod("b", 4)), synced(5), added(pod("c", 6))]
    run = Run(watches=[initial, [added(pod("d", 7))]], use_watch_list=True)
    assert run.reader.calls == [("replace", ["a", "b"]), ("upsert", "c"), ("upsert", "d")]
    assert (run.script.list_calls, run.waits) == ([], [])
    watches = run.script.watch_calls
    asked = [(call.resource_version, call.resource_version_match, call.send_initial_events) for call in watches]
    assert asked == [("", "NotOlderThan", True), ("6", "", None)]
    assert run.reflector._last_version == "7"


def test_changes_among_the_initial_events_are_part_of_the_state_and_an_ordinary_bookmark_does_not_end_them() -> None:
    initial = [added(pod("a", 1)), added(pod("b", 2)), bookmark(2), modified(pod("a", 3)), deleted(pod("b", 4))]
    run = Run(watches=[[*initial, synced(5), bookmark(6)]], use_watch_list=True)
    assert run.reader.calls == [("replace", ["a"])]
    assert run.reader.state["ns/a"].metadata.resource_version == "3"


def test_a_stream_that_ends_before_its_initial_events_do_is_tried_again_and_then_the_server_is_listed() -> None:
    run = Run(watches=[[added(pod("gone", 1))], [added(pod("a", 2)), synced(3), bookmark(4)]], use_watch_list=True)
    assert run.reader.calls == [("replace", ["a"])]
    assert len(run.waits) == 1
    watches = [[added(pod("a"))], [added(pod("a"))], [bookmark(6)]]
    run = Run(lists=[page(pod("a"), version=5)], watches=watches, use_watch_list=True)
    assert run.reader.calls == [("replace", ["a"])]
    assert run.script.watched_versions == ["", "", "5"]


def relisted_amid(watches: list[list[Any]]) -> tuple[Script, Reader, ImpatientClock]:
    """Read watches, of which the steps named "relist" ask for another list."""
    steps = [[(lambda: reflector.relist()) if step == "relist" else step for step in watch] for watch in watches]
    script, clock, reader = Script(watches=steps), ImpatientClock(), Reader()
    reflector: Reflector[Any] = Reflector(script, name="pods", clock=clock)
    script.at_end = reflector.stop
    read(reflector, reader)
    assert script.list_calls == []
    return script, reader, clock


def test_a_relist_on_request_lets_initial_events_of_the_newest_state_end() -> None:
    """A list that takes longer than the time between two requests was begun anew for ever (2026-11-29)."""
    first = [added(pod("a", 1)), "relist", added(pod("b", 2)), "relist", synced(5), bookmark(6)]
    script, reader, clock = relisted_amid([first])
    assert reader.calls == [("replace", ["a", "b"])]
    assert (script.watched_versions, clock.waits) == ([""], [])


def test_a_relist_on_request_amid_older_initial_events_starts_them_over_without_a_wait() -> None:
    older = [added(pod("a", 1)), "relist"]
    script, reader, clock = relisted_amid([[synced(3), api_error(410)], older, [added(pod("b", 4)), synced(5)]])
    assert reader.calls == [("replace", []), ("replace", ["b"])]
    assert script.watched_versions == ["", "3", ""]
    assert len(clock.waits) <= 1, "after the error alone"


@pytest.mark.parametrize("code", [400, 405, 422, 500])
def test_a_server_without_initial_events_is_listed_and_asked_for_them_in_the_next_cycle(code: int) -> None:
    """It may have been upgraded in between."""
    refused = api_error(code, "sendInitialEvents is forbidden")
    watches = [refused, [api_error(500)], [synced(6)], [bookmark(7)]]
    run = Run(lists=[page(pod("a"), version=5)], watches=watches, use_watch_list=True)
    assert run.reader.calls == [("replace", ["a"]), ("replace", [])]
    assert [call.send_initial_events for call in run.script.watch_calls] == [True, None, True, None]


@pytest.mark.parametrize("error", [BUSY, REFUSED])
def test_a_busy_or_absent_server_is_asked_for_initial_events_again(error: Exception) -> None:
    run = Run(watches=[error, error, [synced(5)], [bookmark(6)]], use_watch_list=True)
    assert run.script.list_calls == []
    assert len(run.waits) == 2


@pytest.mark.parametrize("error", [EXPIRED, TOO_LARGE])
def test_initial_events_at_a_version_not_to_be_had_are_asked_for_at_none(error: Exception) -> None:
    expiring = [added(pod("a", 4)), synced(5), api_error(410)]
    run = Run(watches=[expiring, error, [synced(3)], [bookmark(4)]], use_watch_list=True)
    assert run.script.watched_versions == ["", "5", "", "3"]
    assert run.reader.names == []
    assert len(run.waits) == 1


# --- stopping, with real threads


class Blocking(Script):
    """A server that does not answer until it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self._cancelled = threading.Event()

    def list(self, options: ListOptions = LIST_ALL) -> ListPage[Any]:
        self.asked.set()
        assert self._cancelled.wait(30), "never cancelled"
        raise TransportError("cancelled")

    def cancel(self) -> None:
        self._cancelled.set()


@contextmanager
def stopped_at_the_end(reflector: Reflector[Any]) -> Iterator[None]:
    """Run it in a thread of its own, which ends when the reflector is stopped."""
    thread = threading.Thread(target=list, args=[reflector], name="reflector under test")
    thread.start()
    yield
    reflector.stop()
    thread.join(60)
    assert not thread.is_alive()


def test_stop_closes_the_open_watch_cuts_a_wait_short_and_cancels_a_request_that_waits_for_its_answer() -> None:
    server = Server()
    reflector = Reflector(server, name="pods", clock=FakeClock())
    with stopped_at_the_end(reflector):
        eventually(lambda: reflector._last_version and server.api.open_watches == 1)
    assert server.api.open_watches == 0

    clock, script = FakeClock(), Script(lists=[api_error(500, "boom")])
    with stopped_at_the_end(Reflector(script, name="pods", clock=clock, use_watch_list=False)):
        clock.wait_for_waiters()
    assert len(script.list_calls) == 1

    blocking = Blocking()
    with stopped_at_the_end(Reflector(blocking, name="pods", use_watch_list=False)):
        assert blocking.asked.wait(60)


def test_stop_while_a_watch_is_being_opened_closes_it() -> None:
    class StopsWhileOpening(Script):
        def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> Any:
            reflector.stop()
            return super().watch(options)

    script = StopsWhileOpening(watches=[[added(pod("a")), synced(1)]])
    reader = Reader()
    reflector: Reflector[Any] = Reflector(script, name="pods")
    read(reflector, reader)
    assert script.streams[0].closed
    assert reader.calls == []
