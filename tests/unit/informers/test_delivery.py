import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tests.unit.informers.support import pod
from tfoperator.informers.delivery import Callbacks, Fifo, FifoClosed
from tfoperator.kube.views.objects import Pod


@pytest.fixture
def fifo(clock: FakeClock) -> Fifo[str]:
    return Fifo(clock=clock)


def drain(fifo: Fifo[str]) -> list[str | None]:
    return [fifo.pop() for _ in range(len(fifo))]


def test_items_come_out_in_the_order_in_which_they_went_in_unmerged(fifo: Fifo[str], clock: FakeClock) -> None:
    fifo.push(["a", "b", "a"])
    fifo.push(["a"])
    assert drain(fifo) == ["a", "b", "a", "a"]
    waiting = InThread(fifo.pop)
    clock.wait_for_waiters(timed=False)
    fifo.push(["a", "b"])
    assert waiting.result() == "a"
    assert drain(fifo) == ["b"]


def test_pop_waits_until_the_deadline_or_a_poke_and_takes_nothing(fifo: Fifo[str], clock: FakeClock) -> None:
    waiting = InThread(lambda: fifo.pop(deadline=5.0))
    clock.pass_time(5)
    assert waiting.result() is None
    waiting = InThread(fifo.pop)
    clock.wait_for_waiters(timed=False)
    fifo.poke()
    assert waiting.result() is None


def test_a_poke_before_the_wait_is_heard_before_what_is_queued(fifo: Fifo[str]) -> None:
    fifo.push(["a"])
    fifo.poke()
    assert fifo.pop() is None
    assert drain(fifo) == ["a"]


def test_close_ends_a_waiting_pop_and_drops_what_is_there_and_what_comes(fifo: Fifo[str], clock: FakeClock) -> None:
    waiting = InThread(fifo.pop)
    clock.wait_for_waiters(timed=False)
    fifo.close()
    with pytest.raises(FifoClosed):
        waiting.result()
    held = Fifo[str](clock=clock)
    held.push(["a"])
    held.close()
    held.push(["b"])
    assert len(held) == 0
    with pytest.raises(FifoClosed):
        held.pop()


def test_callbacks_hear_of_changes_and_of_an_object_that_was_replaced_under_its_name() -> None:
    heard: list[tuple[str, str, str]] = []

    def note(what: str, obj: Pod) -> None:
        heard.append((what, obj.metadata.uid, obj.metadata.resource_version))

    both = Callbacks[Pod](changed=lambda obj: note("changed", obj), gone=lambda obj: note("gone", obj))
    both.on_add(pod("a", 1, uid="u1"))
    both.on_update(pod("a", 1, uid="u1"), pod("a", 2, uid="u1"))
    assert heard == [("changed", "u1", "1"), ("changed", "u1", "2")]
    both.on_update(pod("a", 2, uid="u1"), pod("a", 3, uid="u2"))
    assert heard[2:] == [("gone", "u1", "2"), ("changed", "u2", "3")]
    both.on_delete(pod("a", 3, uid="u2"))
    assert heard[4:] == [("gone", "u2", "3")]
    neither = Callbacks[Pod]()
    neither.on_update(pod("a", uid="u1"), pod("a", uid="u2"))
    neither.on_delete(pod("a"))
