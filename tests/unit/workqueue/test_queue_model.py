"""Random histories of a queue against the plainest possible model of a queue."""

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.clock import FakeClock
from tfoperator.workqueue import DelayingQueue
from tfoperator.workqueue.queue import ShutDown

ITEMS = st.sampled_from("abcd")
SECONDS = st.integers(min_value=-1, max_value=5)


class QueueModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue: DelayingQueue[str] = DelayingQueue(clock=self.clock)
        self.now = 0.0
        self.waiting: list[str] = []
        self.processing: set[str] = set()
        self.again: set[str] = set()
        self.delayed: dict[str, float] = {}
        self.counter = count()
        self.order: dict[str, int] = {}
        self.stopped = False

    def _add(self, item: str) -> None:
        if self.stopped or item in self.waiting or item in self.again:
            return
        if item in self.processing:
            self.again.add(item)
        else:
            self.waiting.append(item)

    @rule(item=ITEMS)
    def add(self, item: str) -> None:
        self.queue.add(item)
        self._add(item)

    @rule(item=ITEMS, seconds=SECONDS)
    def add_after(self, item: str, seconds: int) -> None:
        self.queue.add_after(item, seconds)
        if self.stopped:
            return
        if seconds <= 0:
            self._add(item)
        elif self.now + seconds < self.delayed.get(item, float("inf")):
            self.delayed[item] = self.now + seconds
            self.order[item] = next(self.counter)

    @rule(seconds=st.integers(min_value=1, max_value=4))
    def pass_time(self, seconds: int) -> None:
        # One second at a time, so that each delivery is exact and no two deadlines fall into one step.
        for _ in range(seconds):
            due = sorted((item for item, at in self.delayed.items() if at <= self.now + 1), key=self.order.__getitem__)
            if self.delayed:
                self.clock.wait_for_deadline(min(self.delayed.values()))
            self.clock.advance(1)
            self.now += 1
            for item in due:
                del self.delayed[item]
                self._add(item)
            if due:
                self.clock.wait_for_deadline(min(self.delayed.values(), default=None))

    @rule()
    @precondition(lambda self: self.waiting)
    def get(self) -> None:
        item = self.queue.get()
        assert item == self.waiting.pop(0)
        assert item not in self.processing, "one item was handed to two workers"
        self.processing.add(item)

    @rule(item=ITEMS)
    def done(self, item: str) -> None:
        self.queue.done(item)
        if item in self.processing:
            self.processing.remove(item)
            if item in self.again:
                self.again.remove(item)
                self.waiting.append(item)

    @rule()
    def shut_down(self) -> None:
        assert self.queue.shut_down(timeout=0) is (not self.processing)
        self.stopped = True
        self.delayed.clear()

    @rule()
    @precondition(lambda self: self.stopped and not self.waiting)
    def get_after_the_end(self) -> None:
        with pytest.raises(ShutDown):
            self.queue.get()

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert len(self.queue) == len(self.waiting)
        assert self.queue.depth() == len(self.waiting) + len(self.again)
        assert self.queue.delayed == len(self.delayed)
        assert self.queue._shutting_down is self.stopped

    def teardown(self) -> None:
        self.queue.shut_down(0)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
