from __future__ import annotations

from collections.abc import Sequence
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


def upsert(name: str, version: int = 1) -> Delta[Pod]:
    return Delta(DeltaType.UPSERTED, (pod(name, version),))


def delete(name: str, version: int = 1) -> Delta[Pod]:
    return Delta(DeltaType.DELETED, (pod(name, version),))


def drain(fifo: DeltaFifo[Pod]) -> list[list[tuple[DeltaType, list[str]]]]:
    """The batches, each delta with the names of its objects."""
    popped: list[list[tuple[DeltaType, list[str]]]] = []
    while len(fifo):
        fifo.pop(lambda batch: popped.append([(one.type, [obj.metadata.name for obj in one.objects]) for one in batch]))
    return popped


def test_deltas_come_out_in_the_order_in_which_they_went_in_and_none_is_merged(fifo: DeltaFifo[Pod]) -> None:
    fifo.apply([upsert("a", 1), upsert("b", 2), upsert("a", 3)])
    fifo.apply([delete("a", 4)])
    fifo.apply([upsert("a", 5)])
    assert drain(fifo) == [
        [(DeltaType.UPSERTED, ["a"]), (DeltaType.UPSERTED, ["b"]), (DeltaType.UPSERTED, ["a"])],
        [(DeltaType.DELETED, ["a"])],
        [(DeltaType.UPSERTED, ["a"])],
    ]


def test_a_whole_state_comes_by_itself_behind_what_was_there_before_it(fifo: DeltaFifo[Pod]) -> None:
    fifo.apply([delete("a", 1)])
    fifo.replace([pod("b", 2), pod("c", 2)])
    fifo.apply([upsert("d", 3)])
    assert drain(fifo) == [
        [(DeltaType.DELETED, ["a"])],
        [(DeltaType.REPLACED, ["b", "c"])],
        [(DeltaType.UPSERTED, ["d"])],
    ]


def test_a_batch_of_nothing_wakes_nobody(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    fifo.apply([])
    assert len(fifo) == 0
    waiting = InThread(lambda: fifo.pop(lambda batch: None, deadline=5.0))
    clock.wait_for_waiters()
    fifo.apply([])
    clock.pass_time(5)
    assert waiting.result() is False


def test_a_waiting_pop_gets_what_came_together(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    sizes: list[int] = []
    waiting = InThread(lambda: fifo.pop(lambda batch: sizes.append(len(batch))))
    clock.wait_for_waiters(timed=False)
    fifo.apply([upsert("a"), delete("a")])
    assert waiting.result() is True
    assert sizes == [2]


def test_it_is_synced_when_the_first_whole_state_has_been_processed(fifo: DeltaFifo[Pod]) -> None:
    fifo.apply([upsert("a")])
    drain(fifo)
    assert not fifo.synced
    fifo.replace([pod("a")])
    assert not fifo.synced
    seen: list[bool] = []
    fifo.pop(lambda batch: seen.append(fifo.synced))
    assert seen == [False]
    assert fifo.synced


def test_an_empty_state_syncs_too(fifo: DeltaFifo[Pod]) -> None:
    fifo.replace([])
    drain(fifo)
    assert fifo.synced


def test_a_state_whose_processing_failed_does_not_sync(fifo: DeltaFifo[Pod]) -> None:
    def fail(batch: Sequence[Delta[Any]]) -> None:
        raise ValueError("no")

    fifo.replace([pod("a")])
    with pytest.raises(ValueError, match="no"):
        fifo.pop(fail)
    assert not fifo.synced


def test_pop_waits_until_the_deadline_and_processes_nothing(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda batch: None, deadline=5.0))
    clock.pass_time(5)
    assert waiting.result() is False


def test_a_poke_ends_a_wait(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda batch: None))
    clock.wait_for_waiters(timed=False)
    fifo.poke()
    assert waiting.result() is False


def test_a_poke_before_the_wait_is_not_lost(fifo: DeltaFifo[Pod]) -> None:
    fifo.poke()
    assert fifo.pop(lambda batch: None) is False


def test_a_poke_is_heard_before_what_is_queued(fifo: DeltaFifo[Pod]) -> None:
    fifo.apply([upsert("a")])
    fifo.poke()
    assert fifo.pop(lambda batch: None) is False
    assert drain(fifo) == [[(DeltaType.UPSERTED, ["a"])]]


def test_close_ends_a_waiting_pop(fifo: DeltaFifo[Pod], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(lambda batch: None))
    clock.wait_for_waiters(timed=False)
    fifo.close()
    with pytest.raises(FifoClosed):
        waiting.result()


def test_a_closed_queue_drops_what_it_has_and_what_comes(fifo: DeltaFifo[Pod]) -> None:
    fifo.apply([upsert("a")])
    fifo.close()
    fifo.apply([upsert("b")])
    assert len(fifo) == 0
    with pytest.raises(FifoClosed):
        fifo.pop(lambda batch: None)
