"""A world that gets each next move from its caller, and lists its possible moves and its state."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hack.enumeration.world.fault import Fault, How
from hack.enumeration.world.world import Scenario, World
from hack.faults.oracle.history import Violation
from hack.faults.plan.steps import Act, JobShape, Step

Json = dict[str, Any]

_SETTLE = 2.5
"""Seconds after each move in which the operator acts: longer than what it holds back."""

_WAIT = 40.0
_LONGEST_LAG = 2
"""The most moves before caches show pending events."""

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_TIMES_ALONE = ("usage", "lastReconcileTime", "observedGeneration")
"""Members of a status that contain only times."""

KINDS = ("TFJob", "Pod", "Service")
_HEX = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Setting:
    """A job, and how many disturbances may happen to it: what is no step of a healthy kubelet counts as one."""

    name: str
    shape: JobShape
    disturbances: int = 1


@dataclass(frozen=True)
class _Move:
    cost: int
    act: Callable[[], object]


class LivingWorld(World):
    """One job from its creation on. For one thread."""

    def __init__(self, setting: Setting) -> None:
        """Raises ValueError if the API server refuses the job."""
        super().__init__(Scenario(setting.name, (setting.shape,), ()))
        self._shape = setting.shape
        self._left = setting.disturbances
        self._lag = 0
        self._waits = 0
        self._start(leads=True)
        self.said.append(str(self._step(Act.CREATE)()))
        self.run_for(_SETTLE)
        if not self.recorder.current("TFJob"):
            raise ValueError(f"{setting.name}: {self.said[-1]}")

    def do(self, move: str) -> list[Violation]:
        """Make a move, and let the operator act; what must never happen. Raises KeyError for a move that is none."""
        chosen = self._moves()[move]
        self._left -= chosen.cost
        self._lag += bool(self._lag)
        result = chosen.act()
        self.said.append(f"{self.clock.monotonic():.1f} s {move}: {result or 'done'}")
        try:
            self.run_for(_SETTLE)
        except RuntimeError as error:
            return [Violation("stuck", "-", str(error))]
        return self._judge(False)[0]

    def moves(self) -> list[str]:
        """All that can happen now."""
        return list(self._moves())

    def key(self) -> bytes:
        """The state: all objects without times and UIDs, events that caches have not shown, and possible moves."""
        objects = [plain(obj) for kind in KINDS for obj in self.recorder.current(kind)]
        shown = [[feed.held, len(feed._pending)] for operator in self._operators for feed in operator.feeds]
        beside = [self._left, self._lag, self._waits, shown, self._armed]
        return hashlib.blake2b(without_times([objects, beside]), digest_size=16).digest()

    def come_to_rest(self) -> tuple[list[Violation], float]:
        """Disturb it no more; what is wrong in the end, first while programs run, then when all have succeeded.

        With it the seconds until programs that run were as they have to be, and stayed so.
        """
        began = self.clock.monotonic()
        self._moves_left, self._fault = False, Fault()
        self._show_late()
        if not self._operators:
            self._take_over()
        try:
            violations = self._come_to_rest(finished=False)
            seconds = self.clock.monotonic() - began
            if not violations:
                self.simulator.resume_all()
                violations = self._come_to_rest(finished=True)
        except RuntimeError as error:
            return [Violation("stuck", "-", str(error))], 0.0
        return violations, seconds

    @property
    def is_prompt(self) -> bool:
        """Not for certain: caches may lag."""
        return False

    # Moves.

    def _moves(self) -> dict[str, _Move]:
        if self._lag > _LONGEST_LAG:
            return {"caches catch up": _Move(0, self._show_late)}
        return {name: move for name, move in self._every_move() if move.cost <= self._left}

    def _every_move(self) -> Iterator[tuple[str, _Move]]:
        yield from self._of_pods(0, Act.RUN, "runs")
        yield from self._of_pods(0, Act.SUCCEED, "succeeds")
        yield from self._of_pods(0, Act.END_TERMINATING, "is gone")
        yield from self._of_pods(1, Act.FAIL, "fails with 1", 1)
        yield from self._of_pods(1, Act.FAIL, "fails with 137", 137)
        yield from self._of_pods(1, Act.EVICT, "is evicted")
        yield from self._of_pods(1, Act.RESTART_IN_PLACE, "restarts in place")
        yield from self._of_pods(1, Act.DELETE_BOUND_POD, "is deleted")
        yield from self._of_pods(1, Act.LOSE_NODE, "loses its node")
        if self.recorder.current("Service"):
            yield "the first service is deleted", _Move(1, self._step(Act.DELETE_SERVICE))
        for job in self.recorder.current("TFJob"):
            suspended = bool(job["spec"]["runPolicy"].get("suspend"))
            yield "resume" if suspended else "suspend", _Move(1, self._step(Act.RESUME if suspended else Act.SUSPEND))
            workers = job["spec"]["tfReplicaSpecs"].get("Worker", {}).get("replicas", 0)
            for count in {workers - 1, workers + 1} - {-1, 0}:
                yield f"scale to {count} workers", _Move(1, self._step(Act.SCALE, value=("Worker", count)))
        if "activeDeadlineSeconds" in self._shape.run_policy:
            yield f"{_WAIT:.0f} s pass", _Move(1, self._wait)
        if not self._operators:
            yield "another operator", _Move(0, self._take_over)
            return
        yield "the operator crashes", _Move(1, self._crash)
        if not self._armed:
            yield "the operator will crash after its next write", _Move(1, self._crash_at_next_write)
        if self._lag:
            yield "caches catch up", _Move(0, self._show_late)
        else:
            for kind in KINDS:
                yield f"the cache of {kind}s lags", _Move(1, partial(self._be_late, kind))

    def _of_pods(self, cost: int, act: Act, text: str, value: object = None) -> Iterator[tuple[str, _Move]]:
        pods = self.simulator.candidates(act, self._shape.name)
        for number, pod in enumerate(pods):
            step = self._step(act, (number + 0.5) / len(pods), value)
            yield f"{pod['metadata']['name']} {text}", _Move(cost, step)

    def _step(self, act: Act, pick: float = 0.0, value: object = None) -> Callable[[], object]:
        return lambda: self.simulator.act(Step(0.0, act, 0, pick, value))

    def _wait(self) -> None:
        self._waits += 1
        self.run_for(_WAIT)

    def _crash(self) -> None:
        self._fault = Fault(misses_a_step=True)
        self._bury(self._operators[0])

    def _crash_at_next_write(self) -> None:
        self.result.happened = False
        self._fault = Fault(How.CRASH_AFTER, self._writes + 1, misses_a_step=True)

    @property
    def _armed(self) -> bool:
        return self._fault.at > self._writes

    def _be_late(self, kind: str) -> None:
        self._lag = 1
        for feed in (feed for operator in self._operators for feed in operator.feeds if feed.kind == kind):
            feed.held = True

    def _show_late(self) -> None:
        self._lag = 0
        for feed in (feed for operator in self._operators for feed in operator.feeds):
            feed.held = False


def plain(obj: Json) -> Json:
    """Return the part of an object that counts for the state."""
    meta = obj["metadata"]
    kept = ("name", "labels", "annotations", "deletionTimestamp", "finalizers")
    status = {name: value for name, value in obj.get("status", {}).items() if name not in _TIMES_ALONE}
    part: Json = {"kind": obj["kind"], "metadata": {name: meta[name] for name in kept if name in meta}}
    if obj["kind"] == "TFJob":
        return part | {"spec": obj["spec"], "status": status}
    return part | {"status": status, "node": obj["spec"].get("nodeName")}


def without_times(value: object) -> bytes:
    """The same bytes for what differs in times and UIDs alone."""
    return _HEX.sub(b"U", _TIME.sub(b"T", msgspec.json.encode(value)))
