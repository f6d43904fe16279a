"""Fault plans of `hack.faults` in a simulated world: the same seed gives the same journal, in every process.

Jobs, steps and chances are the same as the seed has on real servers, and the same injector chooses the faults of
requests. A fault that breaks a socket appears here as the error that a client then raises, or as late events. Two
faults of requests have no effect here: a delay, since nothing else runs meanwhile, and an old list, since every list
here asks for the newest state.
"""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec

from hack.enumeration.world.clock import VirtualClock
from hack.enumeration.world.operator import Crash, SteppedOperator
from hack.enumeration.world.server import DirectClient
from hack.enumeration.world.world import Move, Scenario, World
from hack.faults.injection.answers import AFTER, REASONS
from hack.faults.injection.injector import EventFault, FaultInjector, Request, RequestFault
from hack.faults.injection.servers import SPEED
from hack.faults.plan.scenario import make_scenario
from hack.faults.plan.steps import Act, Profile, Step
from hack.sequential_client import api_error
from tfoperator.kube.protocol import verbs
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import Resource
from tfoperator.operator.options.settings import Options

T = TypeVar("T")

PROGRAM = (sys.executable, "-m", "hack.enumeration")
"""Plays seeds in a process of its own."""

_PROFILE = Profile(real=False, wall_speed=SPEED)
_LEASE = 30.0
"""Seconds. A process that is paused for longer finds that another process leads, and ends."""

_RECONNECT = 1.0
"""Seconds until a watch that broke goes on."""

_METHODS = {
    verbs.Lookup: "GET",
    verbs.Creation: "POST",
    verbs.Replacement: "PUT",
    verbs.Modification: "PATCH",
    verbs.Deletion: "DELETE",
}


class Outcome(msgspec.Struct, frozen=True):
    """How a seed went: a hash of its journal, what the oracle found, and both kinds of seconds."""

    seed: int
    journal: str
    violations: tuple[str, ...]
    virtual: float
    real: float


def play_seed(seed: int) -> Outcome:
    """Play the plan of a seed from beginning to end."""
    began = time.monotonic()
    world = SeededWorld(seed)
    played = world.play()
    journal = hashlib.sha256(msgspec.json.encode(world.recorder.entries())).hexdigest()
    violations = tuple(map(str, played.violations))
    return Outcome(seed, journal, violations, world.clock.monotonic(), time.monotonic() - began)


def compare(count: int, say: Callable[[str], None], program: Sequence[str] = PROGRAM) -> bool:
    """Play the first seeds in two processes that hash differently; whether each journal is the same and judged well."""
    players = [
        subprocess.Popen(
            [*program, "--play-seeds", str(count)],
            env={**os.environ, "PYTHONHASHSEED": str(number)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        for number in (1, 2)
    ]
    decode = msgspec.json.Decoder(Outcome).decode
    same = violated = compared = 0
    virtual = real = 0.0
    try:
        for lines in zip(*(player.stdout or () for player in players), strict=False):
            first, second = map(decode, lines)
            compared, same = compared + 1, same + (first.journal == second.journal)
            virtual, real = virtual + first.virtual + second.virtual, real + first.real + second.real
            violated += bool(first.violations)
            if first.journal != second.journal or first.violations:
                say(f"seed {first.seed}: {'; '.join(first.violations) or 'two journals'}")
    finally:
        for player in players:
            player.terminate()
            player.communicate()
    speed = virtual / max(real, 1e-9)
    say(f"{same} of {count} seeds with the same journal, {violated} violated, at {speed:.0f} times real time")
    return same == compared == count and not violated


class _Stepped(VirtualClock):
    """The clock of operators: the world's clock, but its wall clock can be stepped."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock
        self.offset = 0.0

    def now(self) -> datetime:
        """The wall clock as it was stepped."""
        return self._clock.now() + timedelta(seconds=self.offset)

    def monotonic(self) -> float:
        """As the world's."""
        return self._clock.monotonic()


class _FaultyClient(DirectClient):
    """Carries out each request with the fault that the injector has for it."""

    def __init__(self, world: SeededWorld, who: list[SteppedOperator]) -> None:
        super().__init__(world.server)
        self._world = world
        self._who = who

    def make(self, request: verbs.Request, decode: verbs.Decoder[T]) -> T:
        name, subresource = (str(getattr(request, field, "")) for field in ("name", "subresource"))
        act = partial(super().make, request, decode)
        return self._faulty(_METHODS[type(request)], request.resource, name, act, subresource)

    def list(self, resource: Resource, *arguments: Any, **options: Any) -> Any:
        return self._faulty("GET", resource, "", partial(super().list, resource, *arguments, **options))

    def _faulty(self, method: str, resource: Resource, name: str, act: Callable[[], T], subresource: str = "") -> T:
        world = self._world
        if self._who and self._who[0] not in world.living:
            raise Crash
        if world.is_cut:
            raise TransportError("the network is cut")
        fault = world.injector.on_request(Request(method, resource.plural, name, subresource))
        kind = RequestFault(fault.kind) if fault is not None else None
        if kind in REASONS and kind not in AFTER:
            code, reason = REASONS[kind]
            after = fault.seconds if fault is not None and kind is RequestFault.TOO_MANY else None
            raise api_error(code, reason, f"injected {code}", retry_after=after)
        if kind is RequestFault.DROP_BEFORE:
            raise TransportError("the request was dropped")
        if method != "GET":
            world.note_write()
        answer = act()
        if kind in AFTER:
            code, reason = REASONS[kind]
            raise api_error(code, reason, f"injected {code}")
        if kind in (RequestFault.DROP_AFTER, RequestFault.TRUNCATE):
            raise TransportError("the answer was lost")
        return answer


class SeededWorld(World):
    """Plays the plan of a seed."""

    def __init__(self, seed: int) -> None:
        plan = make_scenario(seed, _PROFILE)
        self.injector = FaultInjector(str(seed), plan.request_faults, plan.event_faults)
        self._networks = plan.default_networks
        self._starts = 0
        self._cut_until = -math.inf
        self._quiet_until: dict[str, float] = {}
        options = Options(
            unique_names=plan.unique_names, gang_scheduler_name=plan.attachments.gang, exposed_tensorboards=True
        )
        scenario = Scenario(
            f"seed {seed}", plan.jobs, plan.steps, options, plan.attachments, standby=plan.operators > 1
        )
        super().__init__(scenario)
        self._wall = _Stepped(self.clock)

    @property
    def living(self) -> list[SteppedOperator]:
        """The processes that run."""
        return self._operators

    @property
    def is_cut(self) -> bool:
        """Whether no request comes through."""
        return self.clock.monotonic() < self._cut_until

    @property
    def options(self) -> Options:
        """With the network that is the default of this start."""
        self._starts += 1
        network = self._networks[(self._starts - 1) % len(self._networks)]
        return msgspec.structs.replace(self._scenario.options, default_network=network)

    @property
    def operator_clock(self) -> VirtualClock:
        """A clock that can be stepped."""
        return self._wall

    def client_of(self, who: list[SteppedOperator]) -> DirectClient:
        """One with faults."""
        return _FaultyClient(self, who)

    def note_write(self) -> None:
        """A write is about to come."""
        self._writes += 1

    def pause_before(self, move: Move) -> float:
        """Return the seconds from the plan, on clocks that are as fast as the clocks of its operators."""
        return move.after * SPEED if isinstance(move, Step) else 0.0

    def act(self, step: Step) -> str:
        """Do a step, also a step about the environment."""
        match step.act:
            case Act.KILL_OPERATOR | Act.PAUSE_OPERATOR if not self._operators:
                return "none runs"
            case Act.KILL_OPERATOR:
                self._bury(self._operators[0])
                return "killed"
            case Act.PAUSE_OPERATOR if step.value[1] * SPEED >= _LEASE:
                self._bury(self._operators[0])
                return "paused for longer than its lease"
            case Act.PAUSE_OPERATOR | Act.CUT_NETWORK:
                seconds = (step.value[1] if step.act is Act.PAUSE_OPERATOR else step.value) * SPEED
                self._cut_until = self.clock.monotonic() + seconds
                for feed in (feed for operator in self._operators for feed in operator.feeds):
                    self._hold_back(feed.kind, seconds)
                return f"cut for {seconds:.0f} s"
            case Act.STEP_CLOCK:
                self._wall.offset += step.value
                self.simulator.interventions.clock_stepped = True
                return "stepped"
            case Act.COMPACT:
                for feed in (feed for operator in self._operators for feed in operator.feeds):
                    feed.list_again()
                return "compacted"
            case _:
                return super().act(step)

    @property
    def is_prompt(self) -> bool:
        """No: its faults are the injector's."""
        return False

    def end_faults(self) -> None:
        """From now on every operator runs, and clocks are right."""
        self.injector.stop()
        self._wall.offset = 0.0

    # Events.

    def _loses(self, kind: str, revision: int) -> bool:
        self.result.events.append((kind, revision))
        fault = self.injector.on_event(Request("GET", kind, watch=True))
        if fault is None:
            return False
        if fault.kind == EventFault.LOSE:
            return True
        seconds = fault.seconds * SPEED if fault.kind in (EventFault.DELAY, EventFault.SILENCE) else _RECONNECT
        self._hold_back(kind, seconds)
        return False

    def _hold_back(self, kind: str, seconds: float) -> None:
        """Show no events of a kind for this many seconds."""
        until = max(self._quiet_until.get(kind, -math.inf), self.clock.monotonic() + seconds)
        self._quiet_until[kind] = until
        self._released_at = math.inf, min(self._quiet_until.values())
        self._hold([feed for operator in self._operators for feed in operator.feeds if feed.kind == kind])

    def _hold(self, feeds: list[Any]) -> None:
        for feed in feeds:
            feed.held = True

    def _release(self) -> None:
        now = self.clock.monotonic()
        self._quiet_until = {kind: until for kind, until in self._quiet_until.items() if until > now}
        self._released_at = math.inf, min(self._quiet_until.values(), default=math.inf)
        for feed in (feed for operator in self._operators for feed in operator.feeds):
            feed.held = feed.kind in self._quiet_until
