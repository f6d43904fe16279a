import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import ANY, Mock, call

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.informers.support import Server, View, added, api_error, bookmark, deleted, modified, pod
from tfoperator.informers import InformerMetrics
from tfoperator.informers.shared_informer import InformerStopped, SharedInformer
from tfoperator.informers.store import IndexFunctionError
from tfoperator.kube.protocol.errors import ConnectionRefused
from tfoperator.kube.views.objects import Pod

Make = Callable[..., SharedInformer[Pod]]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def make(server: Server, clock: FakeClock) -> Iterator[Make]:
    made: list[SharedInformer[Pod]] = []

    def informer(*views: View, **options: Any) -> SharedInformer[Pod]:
        options.setdefault("clock", clock)
        made.append(SharedInformer(server, name="pods", **options))
        for view in views:
            made[-1].add_handler(view)
        return made[-1]

    yield informer
    for each in made:
        assert each.stop(60)


def synced(informer: SharedInformer[Pod]) -> SharedInformer[Pod]:
    """Return the informer, started and filled."""
    informer.start()
    assert informer.wait_for_sync(5)
    return informer


def watched(make: Make, view: View | None = None, **options: Any) -> tuple[SharedInformer[Pod], View]:
    """An informer, started and filled, with one handler."""
    view = view or View()
    return synced(make(view, **options)), view


def caught_up(informer: SharedInformer[Pod], server: Server, *views: View) -> None:
    """Wait until the cache and every view show what the server has."""
    eventually(lambda: {o.metadata.key: o.metadata.resource_version for o in informer.indexer.list()} == server.state)
    for view in views:
        eventually(lambda view=view: view.state == server.state)
        assert view.wrong == []


def recover(informer: SharedInformer[Pod], server: Server, clock: FakeClock, *views: View) -> None:
    """As `caught_up`, letting time pass for as long as the reflector backs off."""

    def probe() -> bool:
        clock.advance(10)
        return {o.metadata.key: o.metadata.resource_version for o in informer.indexer.list()} == server.state

    eventually(probe)
    caught_up(informer, server, *views)


# --- cache and handlers


def test_the_cache_and_the_handlers_follow_the_server(make: Make, server: Server) -> None:
    server.put("a")
    view = View()
    informer = make(view)
    assert not informer.has_synced
    synced(informer)
    caught_up(informer, server, view)
    assert view.calls == [("add", "a")]
    server.put("b")
    server.put("a")
    server.remove("b")
    caught_up(informer, server, view)
    assert view.calls == [("add", "a"), ("add", "b"), ("update", "a"), ("delete", "b")]
    assert informer.lister.find("ns/a").metadata.resource_version == server.state["ns/a"]
    assert informer.last_sync_resource_version == "5"


def test_the_version_is_the_cache_s_and_not_the_reflector_s(make: Make, server: Server) -> None:
    informer = synced(make())
    before = informer.last_sync_resource_version
    with informer._state:  # the cache can't change
        server.put("a")
        eventually(lambda: informer._reflector._last_version != before)
        assert informer.last_sync_resource_version == before
    caught_up(informer, server)
    informer._fifo.push([[modified(pod("a", 10)), bookmark(12)]])
    eventually(lambda: informer.last_sync_resource_version == "12")


def test_the_cache_has_changed_before_a_handler_hears_of_it(make: Make, server: Server) -> None:
    stale: list[str] = []

    def look(obj: Pod) -> None:
        if informer.indexer.get(obj.metadata.key) is None:
            stale.append(obj.metadata.key)

    view = View(added=look)
    informer = make(view)
    informer.start()
    for number in range(50):
        server.put(f"p{number}")
    caught_up(informer, server, view)
    assert stale == []


def test_it_starts_once_and_never_after_its_stop(make: Make, caplog: pytest.LogCaptureFixture, server: Server) -> None:
    informer = make()
    informer.relist()
    synced(informer).start()
    assert "already started" in caplog.text
    server.put("a")
    caught_up(informer, server)
    assert server.api.count("watch") == 1, "a second start or a relist before the first asks for more"
    informer = make()
    informer.stop()
    informer.start()
    assert "already stopped" in caplog.text
    assert not informer.started
    with pytest.raises(InformerStopped, match="pods"):
        informer.add_handler(View())


def test_wait_for_sync_gives_up_in_time_and_when_stopped(make: Make, server: Server, clock: FakeClock) -> None:
    server.failures.extend([ConnectionRefused("nobody listens")] * 1000)
    informer = make()
    informer.start()
    waiting = InThread(lambda: informer.wait_for_sync(60))
    eventually(lambda: clock.advance(3) or not waiting.running)
    assert waiting.result() is False
    endless = InThread(informer.wait_for_sync)
    informer.stop()
    assert endless.result() is False


# --- late, removed and misbehaving handlers


def test_a_raising_handler_is_told_and_goes_on(make: Make, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    metrics = Mock(spec=InformerMetrics)
    informer = make(metrics=metrics)
    server.put("a")
    server.put("b")
    view, other = View(added=Mock(side_effect=ValueError("bad object"))), View()
    informer.add_handler(view, name="raises")
    informer.add_handler(other)
    informer.start()
    server.put("c")
    caught_up(informer, server, view, other)
    eventually(lambda: metrics.handler_failed.mock_calls == [call("pods", "raises")] * 3)
    assert "handler raises failed on add of ns/a" in caplog.text
    assert "bad object" in caplog.text


class Blocks(View):
    """A handler whose first call does not return before `release`."""

    def __init__(self) -> None:
        super().__init__()
        self.busy, self.release = threading.Event(), threading.Event()

    def on_add(self, obj: Any) -> None:
        self.busy.set()
        assert self.release.wait(20)
        super().on_add(obj)


def test_a_handler_that_blocks_delays_nobody_else(make: Make, server: Server) -> None:
    metrics = Mock(spec=InformerMetrics)
    informer = make(metrics=metrics)
    blocked, free = Blocks(), View()
    informer.add_handler(blocked, name="slow")
    informer.add_handler(free)
    informer.start()
    for number in range(10):
        server.put(f"p{number}")
    caught_up(informer, server, free)
    assert blocked.calls == []
    assert blocked.busy.wait(20)
    backlogs = {
        handler: read for _, handler, read in (mock_call.args for mock_call in metrics.handler_backlog.mock_calls)
    }
    assert backlogs["slow"]() == 9
    blocked.release.set()
    caught_up(informer, server, blocked)


def test_stop_says_when_a_handler_does_not_return_and_waits_for_no_other(make: Make, server: Server) -> None:
    blocked = Blocks()
    informer = make(blocked)
    server.put("a")
    server.put("b")
    informer.start()
    assert blocked.busy.wait(60)
    assert informer.stop(0.05) is False
    blocked.release.set()
    assert informer.stop(60) is True
    assert blocked.calls == [("add", "a")]


# --- resync


def resyncs(view: View) -> int:
    return sum(1 for kind, _ in view.calls if kind == "update")


def test_each_handler_is_resynced_at_its_own_period(make: Make, server: Server, clock: FakeClock) -> None:
    server.put("a")
    never, two, three = View(), View(), View()
    informer = make(never)
    informer.add_handler(two, resync_period=2)
    synced(informer)
    informer.add_handler(three, resync_period=3)  # a handler that comes later
    caught_up(informer, server, never, two, three)
    expected = [(1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 2, 1), (5, 2, 1), (6, 3, 2)]
    for _, twos, threes in expected:
        clock.pass_time(1)
        eventually(lambda twos=twos, threes=threes: (resyncs(two), resyncs(three)) == (twos, threes))
    assert resyncs(never) == 0


def test_a_period_below_a_second_is_raised_to_one(
    make: Make, server: Server, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    server.put("a")
    informer, view = make(), View()
    informer.add_handler(view, resync_period=0.1)
    assert "raised" in caplog.text
    informer.start()
    caught_up(informer, server, view)
    clock.pass_time(0.9)
    clock.advance(0.1)
    eventually(lambda: resyncs(view) == 1)
    clock.wait_for_waiters()
    assert resyncs(view) == 1


def test_a_resync_comes_in_time_though_changes_never_cease(make: Make, server: Server, clock: FakeClock) -> None:
    view = View()
    changes = 0

    def one_leads_to_another(obj: Pod) -> list[str]:
        # In the cache's thread, so that its queue is never empty.
        nonlocal changes
        if informer.has_synced and changes < 200:
            changes += 1
            clock.advance(1)
            informer._fifo.push([[modified(pod("busy", 1000 + changes))]])
        return []

    server.put("quiet")
    informer = make(indexers={"chain": one_leads_to_another})
    informer.add_handler(view, resync_period=5)
    synced(informer)
    server.put("busy")
    eventually(lambda: view.calls.count(("update", "quiet")) >= 30)


def test_a_resync_gives_the_newest_object_and_never_an_older_one(make: Make, server: Server, clock: FakeClock) -> None:
    server.put("a")
    versions: list[int] = []
    informer, view = make(), View(updated=lambda _, new: versions.append(int(new.metadata.resource_version)))
    informer.add_handler(view, resync_period=1)
    informer.start()
    caught_up(informer, server, view)
    for _ in range(200):
        server.put("a")
        clock.advance(1)
    caught_up(informer, server, view)
    assert versions == sorted(versions)


# --- faults of the server


def test_an_object_made_anew_in_a_gap_is_an_update_of_its_uid(make: Make, server: Server, clock: FakeClock) -> None:
    server.put("a")
    uids: list[tuple[str, str]] = []
    informer, view = watched(make, View(updated=lambda old, new: uids.append((old.metadata.uid, new.metadata.uid))))
    caught_up(informer, server, view)
    server.api.mute("pods")
    server.remove("a")
    server.put("a")
    server.api.compact()
    server.api.end_watches(losing_events=True)
    recover(informer, server, clock, view)
    assert [old != new for old, new in uids] == [True]


def test_a_relist_does_for_a_resync_that_is_due(make: Make, server: Server, clock: FakeClock) -> None:
    server.put("a")
    informer, view, other = make(), View(), View()
    informer.add_handler(view, resync_period=5)
    informer.add_handler(other)
    informer.start()
    caught_up(informer, server, view)
    server.api.end_watches(api_error(500))
    clock.pass_time(10, waiters=2)
    eventually(lambda: server.api.count("watch") == 2)
    server.put("b")
    caught_up(informer, server, view, other)
    assert resyncs(view) == 1
    assert resyncs(other) == 0


def test_a_deletion_of_an_object_nobody_knew_is_delivered(make: Make, server: Server) -> None:
    _, view = watched(make)
    server.api.mute("pods")
    server.put("ghost")
    server.api.unmute()
    server.remove("ghost")
    eventually(lambda: view.calls == [("delete", "ghost")])


# --- indexes


def by_colour(obj: Pod) -> Sequence[str]:
    if obj.metadata.name == "bad":
        raise KeyError("colour")
    return ("red",)


def test_an_index_that_fails_ends_the_informer(make: Make, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.put("good")
    informer = synced(make(indexers={"colour": by_colour}))
    server.put("bad")
    eventually(lambda: informer.failure)
    assert isinstance(informer.failure, IndexFunctionError)
    assert not informer.has_synced
    assert informer.wait_for_sync(5) is False
    assert "ns/bad" in caplog.text
    assert [obj.metadata.name for obj in informer.indexer.list()] == ["good"]
    eventually(lambda: server.api.open_watches == 0)


def test_what_came_in_a_batch_before_an_index_function_failed_is_told(make: Make, server: Server) -> None:
    server.put("a")
    informer, view = watched(make, indexers={"colour": by_colour})
    changes = [pod("a", 10), pod("b", 11), pod("bad", 12), pod("c", 13)]
    informer._fifo.push([[modified(obj) for obj in changes]])
    eventually(lambda: informer.failure)
    eventually(lambda: view.calls == [("add", "a"), ("update", "a"), ("add", "b")])
    assert view.state == {"ns/a": "10", "ns/b": "11"}
    assert {obj.metadata.name for obj in informer.indexer.list()} == {"a", "b"}


def test_a_batch_is_told_in_its_order_and_without_what_changed_nothing(make: Make, server: Server) -> None:
    server.put("a")
    informer, view = watched(make)
    (held,) = informer.indexer.list()
    changes = [modified(held), added(pod("b", 11)), deleted(pod("a", 12)), modified(pod("b", 13)), added(pod("a", 14))]
    informer._fifo.push([[bookmark(10), *changes]])
    expected = [("add", "b"), ("delete", "a"), ("update", "b"), ("add", "a")]
    eventually(lambda: view.calls == [("add", "a"), *expected])
    assert view.wrong == []


def test_a_handler_may_stop_the_informer_amid_a_batch_and_hears_nothing_more_of_it(make: Make) -> None:
    stopped: list[bool] = []
    informer, view = watched(make, View(added=lambda _: stopped.append(informer.stop(5))))
    informer._fifo.push([[added(pod(f"pod-{number}", number)) for number in range(1, 50)]])
    eventually(lambda: stopped == [True])
    assert view.calls == [("add", "pod-1")]


# --- metrics and threads


def test_what_an_informer_does_can_be_measured(make: Make, server: Server, clock: FakeClock) -> None:
    metrics = Mock(spec=InformerMetrics)
    server.failures.append(ConnectionRefused("down"))
    server.put("a")
    informer = make(metrics=metrics)
    informer.start()
    clock.pass_time(2)
    assert informer.wait_for_sync(5)
    ((_, size),) = (mock_call.args for mock_call in metrics.store_size.mock_calls)
    assert size() == 1
    server.remove("a")
    eventually(lambda: size() == 0)
    informer.stop()
    assert [mock_call for mock_call in metrics.mock_calls if mock_call[0] != "store_size"] == [
        call.watch_failed("pods", "ConnectionRefused"),
        call.watch_started("pods"),
        call.events_received("pods", "ADDED", 1),
        call.events_received("pods", "BOOKMARK", 1),
        call.list_finished("pods", ANY, 1),
        call.events_received("pods", "DELETED", 1),
        call.watch_finished("pods", ANY, 3),
    ]
