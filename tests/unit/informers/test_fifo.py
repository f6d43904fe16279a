from __future__ import annotations

from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tests.unit.informers.support import added, deleted, pod
from tfoperator.informers.fifo import Fifo, FifoClosed
from tfoperator.kube.objects import Pod
from tfoperator.kube.reflector import Listed, News


@pytest.fixture
def fifo(clock: FakeClock) -> Fifo[Pod]:
    return Fifo(clock=clock)


UPSERT, DELETE = added(pod("a")), deleted(pod("a"))
STATE = Listed([pod("b"), pod("c")])


def drain(fifo: Fifo[Pod]) -> list[News[Pod]]:
    popped: list[News[Pod]] = []
    while len(fifo):
        fifo.pop(popped.append)
    return popped


def test_news_come_out_in_the_order_in_which_they_went_in_and_none_are_merged(fifo: Fifo[Pod]) -> None:
    pushed: list[News[Pod]] = [[UPSERT, DELETE, UPSERT], [DELETE], STATE, [UPSERT]]
    for news in pushed:
        fifo.push(news)
    assert drain(fifo) == pushed


def test_a_waiting_pop_gets_what_came_together(fifo: Fifo[Pod], clock: FakeClock) -> None:
    sizes: list[int] = []
    waiting = InThread(lambda: fifo.pop(lambda news: sizes.append(len(news))))
    clock.wait_for_waiters(timed=False)
    fifo.push([UPSERT, DELETE])
    assert waiting.result() is True
    assert sizes == [2]


def test_it_is_synced_when_the_first_whole_state_has_been_processed(fifo: Fifo[Pod]) -> None:
    fifo.push([UPSERT])
    drain(fifo)
    assert not fifo.synced
    fifo.push(STATE)
    assert not fifo.synced
    seen: list[bool] = []
    fifo.pop(lambda news: seen.append(fifo.synced))
    assert seen == [False]
    assert fifo.synced


def test_an_empty_state_syncs_too(fifo: Fifo[Pod]) -> None:
    fifo.push(Listed([]))
    drain(fifo)
    assert fifo.synced


def test_a_state_whose_processing_failed_does_not_sync(fifo: Fifo[Pod]) -> None:
    def fail(news: News[Any]) -> None:
        raise ValueError("no")

    fifo.push(STATE)
    with pytest.raises(ValueError, match="no"):
        fifo.pop(fail)
    assert not fifo.synced


def test_pop_waits_until_the_deadline_and_processes_nothing(fifo: Fifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda news: None, deadline=5.0))
    clock.pass_time(5)
    assert waiting.result() is False


def test_a_poke_ends_a_wait(fifo: Fifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda news: None))
    clock.wait_for_waiters(timed=False)
    fifo.poke()
    assert waiting.result() is False


def test_a_poke_before_the_wait_is_not_lost(fifo: Fifo[Pod]) -> None:
    fifo.poke()
    assert fifo.pop(lambda news: None) is False


def test_a_poke_is_heard_before_what_is_queued(fifo: Fifo[Pod]) -> None:
    fifo.push([UPSERT])
    fifo.poke()
    assert fifo.pop(lambda news: None) is False
    assert drain(fifo) == [[UPSERT]]


def test_close_ends_a_waiting_pop(fifo: Fifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda news: None))
    clock.wait_for_waiters(timed=False)
    fifo.close()
    with pytest.raises(FifoClosed):
        waiting.result()


def test_a_closed_queue_drops_what_it_has_and_what_comes(fifo: Fifo[Pod]) -> None:
    fifo.push([UPSERT])
    fifo.close()
    fifo.push([UPSERT])
    assert len(fifo) == 0
    with pytest.raises(FifoClosed):
        fifo.pop(lambda news: None)
