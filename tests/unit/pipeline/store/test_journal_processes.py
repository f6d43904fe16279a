"""Processes share a journal that gets shorter, and are held up, fail and are killed at any of their requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.journals import DAY, EVERY, World, ids, never, write
from tfoperator.pipeline.objects import ObjectStoreError
from tfoperator.pipeline.store import StoreError
from tfoperator.pipeline.store.shortening import TRUSTED_SECONDS


class Killed(BaseException):
    """The process has ended in the middle."""


PAUSES = st.sampled_from([0.0, 2 * TRUSTED_SECONDS, 1.5 * DAY])
WHO = st.integers(0, 1)
WHERE = st.sampled_from([f"{when} {what}" for when in ("before", "after") for what in ("get", "put", "keys", "delete")])
MEANWHILE = st.sampled_from([0, 1, 2 * EVERY, 4 * EVERY])
THEN = st.sampled_from(["", "", "killed", "fails"])


class Processes(RuleBasedStateMachine):
    """Two processes, of which each may be held up at any request for any time, while the other writes, or be killed,
    and of which any request may fail.
    """

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        self.world = World(self.stack)
        self.processes = [self.world.process() for _ in range(2)]
        self.names = (f"r{number}" for number in itertools.count())
        self.written: set[str] = set()
        self.maybe: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            with self.stack:
                self.check(self.world.runs())

    @rule(who=WHO, where=WHERE, pause=PAUSES, meanwhile=MEANWHILE, then=THEN)
    def writes(self, who: int, where: str, pause: float, meanwhile: int, then: str) -> None:
        self.writes_once(who, self.held_up(who, where, pause, meanwhile, then))

    @rule(who=WHO, where=WHERE, pause=PAUSES, meanwhile=MEANWHILE, fails=st.booleans())
    def reads(self, who: int, where: str, pause: float, meanwhile: int, fails: bool) -> None:
        before = set(self.written)
        store, seen = self.processes[who]
        seen.between = self.held_up(who, where, pause, meanwhile, "fails" if fails else "")
        try:
            assert before <= set(ids(store))
        except StoreError:
            if not fails:
                raise
        finally:
            seen.between = never

    @rule(who=WHO)
    def begins_anew(self, who: int) -> None:
        self.processes[who][0].close()
        self.processes[who] = self.world.process()

    @rule(seconds=PAUSES)
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @rule()
    def all_find_the_same(self) -> None:
        found = self.world.runs()
        self.check(found)
        assert [ids(store) for store, _ in self.processes] == [found, found]

    def held_up(self, who: int, where: str, pause: float, meanwhile: int, then: str) -> Callable[[str], None]:
        """At the first such request of a call, the other process writes, and time passes in the middle of that.

        After that the call goes on, its process is killed, or the request fails.
        """
        moments = iter([where])

        def between(now: str) -> None:
            if now == where and next(moments, ""):
                for number in range(meanwhile):
                    if number == meanwhile // 2:
                        self.world.clock.advance(pause)
                    self.writes_once(1 - who, never)
                if then == "killed":
                    raise Killed
                if then == "fails":
                    raise ObjectStoreError("no answer")

        return between

    def writes_once(self, who: int, between: Callable[[str], None]) -> None:
        store, seen = self.processes[who]
        name = next(self.names)
        seen.between = between
        try:
            write(store, name)
            self.written.add(name)
        except StoreError:
            self.maybe.add(name)
        except Killed:
            self.maybe.add(name)
            self.begins_anew(who)
        finally:
            seen.between = never

    def check(self, found: list[str]) -> None:
        """What was acknowledged is there, once; of the rest only what was tried."""
        assert len(set(found)) == len(found)
        assert self.written <= set(found) <= self.written | self.maybe


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=50, stateful_step_count=12, deadline=None)
