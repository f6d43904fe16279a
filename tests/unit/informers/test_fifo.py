from __future__ import annotations

from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tests.unit.informers.support import pod
from tfoperator.informers import Delta, DeltaFifo, DeltaType, FifoClosed
from tfoperator.kube.objects import Pod


@pytest.fixture
def fifo(clock: FakeClock) -> DeltaFifo[Pod]:
    return DeltaFifo(clock=clock)


def drain(fifo: DeltaFifo[Pod]) -> list[tuple[DeltaType, list[str]]]:
    popped: list[tuple[DeltaType, list[str]]] = []
    while len(fifo):
        fifo.pop(lambda delta: popped.append((delta.type, [obj.metadata.name for obj in delta.objects])))
    return popped


def test_deltas_come_out_in_the_order_in_which_they_went_in_and_none_is_merged(fifo: DeltaFifo[Pod]) -> None:
    fifo.upsert(pod("a", 1))
    fifo.upsert(pod("b", 2))
    fifo.upsert(pod("a", 3))
    fifo.delete(pod("a", 4))
    fifo.upsert(pod("a", 5))
    assert drain(fifo) == [
        (DeltaType.UPSERTED, ["a"]),
        (DeltaType.UPSERTED, ["b"]),
        (DeltaType.UPSERTED, ["a"]),
        (DeltaType.DELETED, ["a"]),
        (DeltaType.UPSERTED, ["a"]),
    ]


def test_a_whole_state_is_one_delta_behind_those_before_it(fifo: DeltaFifo[Pod]) -> None:
    fifo.delete(pod("a", 1))
    fifo.replace([pod("b", 2), pod("c", 2)])
    assert drain(fifo) == [(DeltaType.DELETED, ["a"]), (DeltaType.REPLACED, ["b", "c"])]


def test_it_is_synced_when_the_first_whole_state_has_been_processed(fifo: DeltaFifo[Pod]) -> None:
    fifo.upsert(pod("a"))
    drain(fifo)
    assert not fifo.synced
    fifo.replace([pod("a")])
    assert not fifo.synced
    seen: list[bool] = []
    fifo.pop(lambda delta: seen.append(fifo.synced))
    assert seen == [False]
    assert fifo.synced


def test_an_empty_state_syncs_too(fifo: DeltaFifo[Pod]) -> None:
    fifo.replace([])
    drain(fifo)
    assert fifo.synced


def test_a_state_whose_processing_failed_does_not_sync(fifo: DeltaFifo[Pod]) -> None:
    def fail(delta: Delta[Any]) -> None:
        raise ValueError("no")

    fifo.replace([pod("a")])
    with pytest.raises(ValueError, match="no"):
        fifo.pop(fail)
    assert not fifo.synced


def test_pop_waits_until_the_deadline_and_processes_nothing(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda delta: None, deadline=5.0))
    clock.pass_time(5)
    assert waiting.result() is False


def test_a_poke_ends_a_wait(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda delta: None))
    clock.wait_for_waiters(timed=False)
    fifo.poke()
    assert waiting.result() is False


def test_a_poke_before_the_wait_is_not_lost(fifo: DeltaFifo[Pod]) -> None:
    fifo.poke()
    assert fifo.pop(lambda delta: None) is False


def test_a_poke_is_heard_before_what_is_queued(fifo: DeltaFifo[Pod]) -> None:
    fifo.upsert(pod("a"))
    fifo.poke()
    assert fifo.pop(lambda delta: None) is False
    assert drain(fifo) == [(DeltaType.UPSERTED, ["a"])]


def test_close_ends_a_waiting_pop(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda delta: None))
    clock.wait_for_waiters(timed=False)
    fifo.close()
    with pytest.raises(FifoClosed):
        waiting.result()


def test_a_closed_queue_drops_what_it_has_and_what_comes(fifo: DeltaFifo[Pod]) -> None:
    fifo.upsert(pod("a"))
    fifo.close()
    fifo.upsert(pod("b"))
    assert len(fifo) == 0
    with pytest.raises(FifoClosed):
        fifo.pop(lambda delta: None)
