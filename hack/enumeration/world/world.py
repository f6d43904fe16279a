"""A world: one scenario, played from beginning to end with one fault at one place, and judged by the oracle.

Everything that can be done now is done before time moves on: garbage collection, caches, the queue, the reconciler.
Then the next step of the scenario comes. After the last one kubelets do their work until the oracle finds nothing
wrong; at last all programs succeed, and every job has to end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from hack.enumeration.world.clock import VirtualClock
from hack.enumeration.world.deleted_job import DeletedJob
from hack.enumeration.world.fault import EVERY_KIND, NO_FAULT, Fault, How
from hack.enumeration.world.journal import DirectRecorder
from hack.enumeration.world.kueue import Kueue
from hack.enumeration.world.operator import Crash, SteppedOperator, ToldClient
from hack.enumeration.world.server import DirectClient, SimulatedServer
from hack.enumeration.world.witnesses import witnesses
from hack.faults.oracle.events import SentEvent, check_events
from hack.faults.oracle.history import Violation
from hack.faults.oracle.judge import judge
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import JobShape, Step
from hack.faults.simulation.attachments import watched_kinds
from hack.faults.simulation.cluster import ClusterSimulator
from tfoperator.controller.collaborators import PodWitnesses
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.operator.options.settings import Options

NAMESPACE = "ns"

_PAUSE = 2.5
"""Seconds between two steps of a scenario that gives no other time: longer than the operator holds back its writes."""

_DOWN = 1.0
"""Seconds until another process leads."""

_LATE_WRITES, _LATE_SECONDS = 3, 5.0
"""Late events are delivered after _LATE_WRITES writes of the operator, or after _LATE_SECONDS without a write."""

_PATIENCE = 1800.0
"""Seconds in which a world has to come to rest."""

_QUIET, _QUIET_WRITES = 20.0, 2
"""A world is at rest if there are at most _QUIET_WRITES writes in _QUIET seconds, for example the record of a double
check.
"""

_NEXT_STEP = 1e9
"""Seconds: never, for a caller who waits for the next step."""

_STEP_SECONDS = 1e-6
"""Seconds that each action of an operator takes: time must pass for a caller who waits, although floats are rounded."""

_MOST_STEPS = 20_000
"""More than that at one moment, and the operator spins."""

Move = Step | Callable[["World"], object]
"""A step of a scenario: something that `hack.faults` can do, or a function of its own."""


@dataclass(frozen=True)
class Scenario:
    """The jobs of a play, and everything that happens to them.

    With `standby` a second process has full caches already; with `logs` operators look into pods.
    """

    name: str
    jobs: tuple[JobShape, ...]
    moves: tuple[Move, ...]
    options: Options = field(default_factory=Options)
    attachments: Attachments = field(default_factory=Attachments)
    standby: bool = False
    logs: bool = False


@dataclass
class Played:
    """How a world went: what the oracle found, and the places at which another run can have its fault."""

    violations: list[Violation] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    """The server's revision after each write of the operator."""
    events: list[tuple[str, int]] = field(default_factory=list)
    """Each event that a cache was sent, as kind and revision."""
    happened: bool = False
    """Whether the fault came to its place."""


class World:
    """Played once, by `play`."""

    def __init__(self, scenario: Scenario, fault: Fault = NO_FAULT) -> None:
        self.clock = VirtualClock()
        self.server = SimulatedServer(self.clock)
        self.server.create_namespace(NAMESPACE)
        self.client = DirectClient(self.server)
        self.recorder = DirectRecorder(self.server, watched_kinds(scenario.attachments))
        self.simulator = ClusterSimulator(
            self.client, NAMESPACE, scenario.jobs, self.recorder, self.clock.now, scenario.attachments,
            self.clock.monotonic,
        )  # fmt: skip
        self.kueue = Kueue(self.client, NAMESPACE, self.recorder, self.clock.now)
        self.said: list[str] = []
        self.lines: dict[str, datetime] = {}
        """When pods have written their newest lines, by name."""
        self.processes: list[SteppedOperator] = []
        """All that there were, in the order in which they started."""
        self.result = Played()
        self._scenario = scenario
        self._fault = fault
        self._deleted = DeletedJob(self, fault) if fault.how is How.DELETED_JOB else None
        self._operators: list[SteppedOperator] = []
        self._restart_at = math.inf
        self._released_at = (math.inf, math.inf)  # after so many writes, or at that time
        self._writes = 0
        self._moves_left = True
        self._asked, self._told = (0, False), ([Violation("stuck", "-", "nothing was judged")], list[Violation]())
        self._again: list[Violation] = []  # what was asked for twice
        self._old: dict[str, int] = {}  # the revisions that the next process's lists are of, by kind

    def play(self) -> Played:
        """From beginning to end."""
        try:
            self._play()
        except RuntimeError as error:
            self.result.violations.append(Violation("stuck", "-", str(error)))
        return self.result

    def _play(self) -> None:
        self._start(leads=True)
        if self._scenario.standby:
            self._start(leads=False)
        for move in self._scenario.moves:
            self.run_for(self.pause_before(move))
            before = self._restart_at
            result = self.act(move) if isinstance(move, Step) else self._do(move)
            self.said.append(f"{self.clock.monotonic():.1f} s {move}: {result}")
            if before < math.inf and self._restart_at < math.inf:
                self._restart_at = self.clock.monotonic()
        self._moves_left = False
        if self._restart_at == _NEXT_STEP:
            self._restart_at = self.clock.monotonic()
        self.end_faults()
        for finished in (False, True):
            if finished:
                self.simulator.resume_all()
            if violations := self._come_to_rest(finished=finished):
                self.result.violations += violations
                return
        if self._deleted is not None:
            self.result.violations += self._deleted.remembered()
        if self.is_prompt:
            self.result.violations += check_events(self.simulator.journal(), self.sent_events)

    @property
    def sent_events(self) -> list[SentEvent]:
        """The events that the present processes of the operator have sent."""
        return [event for operator in self._operators for event in operator.events.sent]

    # The parts that worlds with more than one fault override.

    def pause_before(self, move: Move) -> float:
        """The seconds before a step."""
        return max(move.after, _PAUSE) if isinstance(move, Step) else _PAUSE

    def act(self, step: Step) -> str:
        """Do a step; return the result, for people."""
        return self.simulator.act(step)

    def end_faults(self) -> None:
        """From now on nothing is wrong."""

    def client_of(self, who: list[SteppedOperator]) -> DirectClient:
        """The client of the next process, which will be the one member of `who`."""
        again = lambda text: self._again.append(Violation("doubled", "-", text))  # noqa: E731
        return ToldClient(self.server, lambda: self._before_write(who), self._after_write, again)

    @property
    def is_prompt(self) -> bool:
        """Whether the operator sees each change as it is made, and is never disturbed."""
        return self._fault == NO_FAULT

    @property
    def options(self) -> Options:
        """The options of the next process."""
        return self._scenario.options

    @property
    def operator_clock(self) -> VirtualClock:
        """The clock of operators."""
        return self.clock

    def _do(self, move: Callable[[World], object]) -> object:
        """A step that is impossible is left out, as the simulator does it."""
        try:
            return move(self)
        except KubeError as error:
            return f"too late: {error}"

    def _come_to_rest(self, *, finished: bool) -> list[Violation]:
        end = self.clock.monotonic() + _PATIENCE
        pause = 0.5
        while True:
            self.kueue.relax(finished=finished)
            if self._deleted is not None:
                self._deleted.make_room()
            self.simulator.make_progress(succeed=finished)
            self.run_for(pause)
            never, pending = self._judge(finished)
            if never:
                return never
            if not pending and self._restart_at == math.inf and self._stays_quiet(finished):
                return []
            if self.clock.monotonic() >= end:
                return pending or [Violation("stuck", "-", "the operator keeps writing although nothing happens")]
            pause = min(pause * 1.5, 15.0)

    def _stays_quiet(self, finished: bool) -> bool:
        before = self._writes
        self.run_for(_QUIET / 2)
        self.simulator.make_progress(succeed=finished)  # programs that report go on to do so
        self.run_for(_QUIET / 2)
        if self._writes - before > _QUIET_WRITES * len(self._scenario.jobs):
            return False
        return not any(self._judge(finished))

    def _judge(self, finished: bool) -> tuple[list[Violation], list[Violation]]:
        """Return the oracle's judgement; the same as before, if nothing has happened since then."""
        asked = len(self.recorder.entries()), finished
        if asked != self._asked:
            journal = msgspec.structs.replace(self.simulator.journal(), prompt=self.is_prompt)
            self._asked, self._told = asked, judge(journal, finished=finished)
        never, pending = self._told
        # Objects that others have made a second time fulfil the expectations that a process has about its own objects.
        return [*never, *(() if self.simulator.interventions.doubles else self._again)], pending

    # Time.

    def run_for(self, seconds: float) -> None:
        """Let so much time pass, and do at each moment what is due then."""
        end = self.clock.monotonic() + seconds
        self.do_all()
        while (due := self._due) <= end:
            self._reach(due)
            self.do_all()
        self._reach(end)
        self.do_all()

    def _reach(self, moment: float) -> None:
        self.clock.reach(moment)
        if self._deleted is not None:
            self.result.violations += self._deleted.late()

    def do_all(self) -> None:
        """Do everything that can be done at this moment. Raises RuntimeError if it never ends."""
        for _ in range(_MOST_STEPS):
            if not self._do_one():
                return
        raise RuntimeError("the operator spins")

    @property
    def _due(self) -> float:
        return min(self._restart_at, self._released_at[1], *(operator.due for operator in self._operators), math.inf)

    def _do_one(self) -> bool:
        if self._deleted is not None and self._deleted.happens():
            return True
        if self.server.collect_garbage() or self.kueue.act():
            return True
        now = self.clock.monotonic()
        if self._writes >= self._released_at[0] or now >= self._released_at[1]:
            self._release()
            return True
        if now >= self._restart_at:
            self._take_over()
            return True
        for operator in tuple(self._operators):
            try:
                if operator.step():
                    self.clock.reach(self.clock.monotonic() + _STEP_SECONDS)
                    return True
            except Crash:
                self._bury(operator)
                return True
        return False

    # Processes.

    @property
    def operators(self) -> tuple[SteppedOperator, ...]:
        """The processes that there are now."""
        return tuple(self._operators)

    def kill(self) -> None:
        """Kill the operator; another process leads soon after."""
        for operator in self.operators:
            self._bury(operator)

    def _start(self, *, leads: bool) -> SteppedOperator:
        hooks: list[SteppedOperator] = []
        operator = SteppedOperator(
            self.server,
            self.operator_clock,
            self.options,
            client=self.client_of(hooks),
            inside=witnesses(self._newest_line, self.operator_clock) if self._scenario.logs else PodWitnesses(),
            loses=self._loses,
            revision_of=lambda kind: self._old.get(kind, self._old.get(EVERY_KIND, self.server.store.revision)),
        )
        hooks.append(operator)
        if self._old:
            stale = [feed for feed in operator.feeds if EVERY_KIND in self._old or feed.kind in self._old]
            self._hold(stale)
            self._old = {}
        self._operators.append(operator)
        self.processes.append(operator)
        if leads:
            operator.lead()
        return operator

    def _newest_line(self, pod: str) -> datetime | None:
        """When a pod has written it; in the end programs write all the time."""
        return self.lines.get(pod) if self._moves_left else self.clock.now()

    def _bury(self, operator: SteppedOperator) -> None:
        operator.stop()
        if operator in self._operators:
            self._operators.remove(operator)
            waits = self._fault.misses_a_step and self._moves_left
            self._restart_at = _NEXT_STEP if waits else self.clock.monotonic() + _DOWN

    def _take_over(self) -> None:
        self._restart_at = math.inf
        if self._operators:
            self._operators[0].lead()
        else:
            self._start(leads=True)

    # Faults.

    def _before_write(self, who: list[SteppedOperator]) -> None:
        fault = self._fault
        if who and who[0] not in self._operators:
            raise Crash  # its last write has come, and another process leads
        self._writes += 1
        if fault.at != self._writes:
            return
        if fault.how is How.CRASH_BEFORE:
            self.result.happened = True
            raise Crash
        if fault.how is How.LATE_WRITE and who:
            self.result.happened = True
            self._operators.remove(who[0])
            self._take_over()
            self.run_for(_DOWN)

    def _after_write(self) -> None:
        self.result.writes.append(self.server.store.revision)
        if self._deleted is not None:
            self._deleted.happens()
        fault = self._fault
        if fault.at == self._writes and fault.how is How.CHANGED_SCOPE and not self.result.happened:
            self.result.happened = True
            self.simulator.change_scope()
        if fault.at == self._writes and fault.how in (How.CRASH_AFTER, How.OLD_LIST) and not self.result.happened:
            self.result.happened = True
            if fault.how is How.OLD_LIST:
                self._old = {fault.kind: fault.revision}
            raise Crash

    def _loses(self, kind: str, revision: int) -> bool:
        self.result.events.append((kind, revision))
        fault = self._fault
        if (kind, revision) != (fault.kind, fault.revision):
            return False
        if fault.how is How.LATE_EVENT and not self.result.happened:
            self.result.happened = True
            self._hold([feed for feed in self._operators[0].feeds if feed.kind == kind])
        if fault.how is How.LOST_EVENT:
            self.result.happened = True
            return True
        return False

    def hold(self, *kinds: str) -> None:
        """Let the caches of these kinds show nothing, for some seconds or until `release`."""
        self._hold([feed for operator in self._operators for feed in operator.feeds if feed.kind in kinds])
        self._released_at = math.inf, self._released_at[1]

    @property
    def shows_all(self) -> bool:
        """Whether every cache shows what there is."""
        return all(not feed.held and not feed._pending for operator in self._operators for feed in operator.feeds)

    def _hold(self, feeds: list[Any]) -> None:
        for feed in feeds:
            feed.held = True
        self._released_at = self._writes + _LATE_WRITES, self.clock.monotonic() + _LATE_SECONDS

    def release(self) -> None:
        """Let every cache show what it has not shown."""
        self._release()

    def _release(self) -> None:
        self._released_at = math.inf, math.inf
        for operator in self._operators:
            for feed in operator.feeds:
                feed.held = False
