"""Plays one scenario from beginning to end, and says what the oracle found.

A plan has three parts. The storm: every step of the scenario, in its weather. The calm: no faults, every operator runs,
kubelets do their work, and the oracle is asked until it has no complaint or patience ends. The end: jobs are resumed,
programs succeed, and every job has to end.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hack.faults.clock import ScaledClock
from hack.faults.journal import Entry, Keeper
from hack.faults.lives import Violation
from hack.faults.oracle import judge
from hack.faults.player import Player
from hack.faults.proxy import FaultProxy
from hack.faults.replica import Replicas
from hack.faults.scenario import Scenario, make_scenario
from hack.faults.servers import Server
from hack.faults.steps import Act, Step
from hack.faults.surroundings import followed
from hack.faults.weather import Weather
from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import NAMESPACES

__all__ = ["Result", "Stopped", "play"]

PATIENCE = 60.0
"""Real seconds, twenty minutes of the operators' time, in which a plan has to come to rest. Generous, for the machine
may be busy; a plan that needs none of it is over in a second or two."""

_QUIET = 0.15  # real seconds in which a plan at rest must stay so: three of the operators'
_QUIET_WRITES = 3  # the record of a comparison may fall into it
_POLL = 0.02
_COMPLETE_SECONDS = 10.0
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Stopped(Exception):
    """The plan was not played to its end, because it was told to stop."""


@dataclass
class Result:
    """How a plan went. `violations` is empty if all is well; `history` is for people."""

    seed: int
    seconds: float
    violations: list[Violation] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)


def play(
    seed: int,
    server: Server,
    folder: Path,
    *,
    patience: float = PATIENCE,
    plain: bool = False,
    end: threading.Event | None = None,
) -> Result:
    """Play the plan of a seed in a namespace of its own. Raises Stopped soon after `end` is set, with all tidied up."""
    began = time.monotonic()
    scenario = make_scenario(seed, server.profile, plain=plain)
    weather = Weather(str(seed), scenario.request_faults, scenario.event_faults, no_watch_list=scenario.no_watch_list)
    namespace = f"plan-{seed}-{time.monotonic_ns() % 10**9}"
    with ExitStack() as stack:
        client = stack.enter_context(server.client())
        client.create(NAMESPACES, "", {"metadata": {"name": namespace}}, _decode)
        stack.callback(_remove, client, namespace)
        proxy = stack.enter_context(FaultProxy(server.url, server.token, weather, certificate=server.certificate))
        keeper = stack.enter_context(Keeper(client, namespace, followed(scenario.companions)))
        replicas = stack.enter_context(
            Replicas(
                scenario.operators,
                proxy.url,
                server.origin,
                folder,
                _options(scenario, server, namespace),
                read_deadline=server.read_deadline,
            )
        )
        now = ScaledClock(server.origin).now
        player = Player(client, namespace, scenario.jobs, keeper, now, scenario.companions)
        plan = _Plan(scenario, server, weather, proxy, keeper, replicas, player, patience, end or threading.Event())
        violations = plan.run()
        history = plan.history if violations else []
        if violations:
            history += ["", "what the API server says:", *map(_line, player.journal().entries)]
            history += ["", "what the operators say:", replicas.tail(60)]
    return Result(seed, time.monotonic() - began, violations, history, dict(weather.inflicted))


def _options(scenario: Scenario, server: Server, namespace: str) -> dict[str, object]:
    options: dict[str, object] = {"namespace": [namespace], "unique_names": scenario.unique_names}
    options["gang_scheduler_name"] = scenario.companions.gang
    if scenario.operators > 1:
        # One and a half real seconds, of which a machine with other things to do can lose some.
        options |= {
            "leader_elect": True,
            "leader_elect_namespace": namespace,
            "leader_elect_lease_duration": 30.0,
            "leader_elect_renew_deadline": 20.0,
            "leader_elect_retry_period": 2.0,
        }
    if server.profile.wall_speed == 1:
        # Delays are told by wall clocks, which are slow here.
        options |= {"restart_delay_base": 0.05, "restart_delay_cap": 0.2}
    return options


def _remove(client: Client, namespace: str) -> None:
    try:
        client.delete(NAMESPACES, "", namespace)
    except KubeError:
        pass  # it goes with its server


class _Plan:
    def __init__(
        self,
        scenario: Scenario,
        server: Server,
        weather: Weather,
        proxy: FaultProxy,
        keeper: Keeper,
        replicas: Replicas,
        player: Player,
        patience: float,
        end: threading.Event,
    ) -> None:
        self._scenario = scenario
        self._server = server
        self._weather = weather
        self._proxy = proxy
        self._keeper = keeper
        self._replicas = replicas
        self._player = player
        self._patience = patience
        self._end = end
        self._paused: dict[int, float] = {}
        self._stepped = 0.0
        self.history = scenario.describe()

    def run(self) -> list[Violation]:
        for step in self._scenario.steps:
            self._sleep(step.after)
            self._look_after_operators()
            self.history.append(f"{step}: {self._do(step)}")
        self._end_the_storm()
        found = self._come_to_rest(finished=False)
        if found:
            return found
        self.history.append("calm; now everything comes to its end")
        self._player.resume_all()
        return self._come_to_rest(finished=True)

    # The storm.

    def _do(self, step: Step) -> str:
        members = self._replicas.members
        match step.act:
            case Act.KILL_OPERATOR:
                members[step.value].kill()
                self._paused.pop(step.value, None)
                members[step.value].start()
                return "killed and started"
            case Act.PAUSE_OPERATOR:
                number, seconds = step.value
                if number in self._paused:
                    return "it is paused already"
                members[number].pause()
                self._paused[number] = time.monotonic() + seconds
                return f"paused for {seconds} s"
            case Act.CUT_NETWORK:
                self._proxy.cut()
                self._sleep(step.value)
                self._proxy.restore()
                return "cut and restored"
            case Act.STEP_CLOCK:
                self._replicas.step_clock(step.value)
                self._stepped += step.value
                self._player.account.clock_stepped = True
                return "stepped"
            case Act.COMPACT:
                self._server.compact()
                return "compacted"
            case Act.RESTART_API:
                self._server.restart()
                return "restarted"
            case Act.PAUSE_ETCD:
                self._server.pause_storage(step.value)
                return "paused"
            case _:
                return self._player.act(step)

    def _look_after_operators(self) -> None:
        if self._end.is_set():
            raise Stopped
        now = time.monotonic()
        for number, end in list(self._paused.items()):
            if now >= end:
                self._replicas.members[number].resume()
                del self._paused[number]
        self._replicas.ensure()

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            self._look_after_operators()

    def _end_the_storm(self) -> None:
        # A pause that is to outlast the lease does so.
        while self._paused:
            self._sleep(0.05)
        self._weather.calm()
        # Somebody sets the clock right.
        self._replicas.step_clock(-self._stepped)
        self.history.append("the storm is over")

    # The calm.

    def _come_to_rest(self, *, finished: bool) -> list[Violation]:
        began = time.monotonic()
        seen, found = -1, [Violation("stuck", "-", "nothing was seen yet")]
        while True:
            self._look_after_operators()
            self._player.tend(succeed=finished)
            if (count := self._keeper.count()) != seen:
                seen = count
                never, found = judge(self._player.journal(), finished=finished)
                if never and (never := self._confirmed(finished)):
                    return never
            if not found and not self._keeper.is_away and self._stays_quiet(finished):
                return []
            if time.monotonic() - began > self._patience:
                return found or [Violation("stuck", "-", "the operator keeps writing although nothing happens")]
            self._keeper.wait(_POLL)

    def _confirmed(self, finished: bool) -> list[Violation]:
        """What went wrong for ever, once the journal is complete: its three watches don't keep step."""
        end = time.monotonic() + _COMPLETE_SECONDS
        while time.monotonic() < end:
            before = self._keeper.count()
            try:
                complete = self._keeper.is_complete()
            except KubeError:
                complete = False
            if complete and before == self._keeper.count():
                break
            self._keeper.wait(_POLL)
        return judge(self._player.journal(), finished=finished)[0]

    def _stays_quiet(self, finished: bool) -> bool:
        before = self._keeper.count()
        time.sleep(_QUIET)
        if self._keeper.count() - before > _QUIET_WRITES:
            return False
        never, end = judge(self._player.journal(), finished=finished)
        return not never and not end


def _line(entry: Entry) -> str:
    """One event, for people."""
    obj = entry.obj
    status: dict[str, Any] = obj.get("status") or {}
    if entry.kind == "TFJob":
        sizes = {kind: spec.get("replicas") for kind, spec in obj["spec"]["tfReplicaSpecs"].items()}
        suspended = " suspended" if (obj["spec"].get("runPolicy") or {}).get("suspend") else ""
        conditions = [f"{one['type']}={one['status']}" for one in status.get("conditions") or ()]
        replicas = {
            kind: {name: value for name, value in one.items() if value not in (0, "", {})}
            for kind, one in (status.get("replicaStatuses") or {}).items()
        }
        detail = f"{sizes}{suspended} {' '.join(conditions)} {replicas}"
    elif entry.kind == "Pod":
        reasons = [status.get("reason") or "", "terminating" if obj["metadata"].get("deletionTimestamp") else ""]
        base = (obj["metadata"].get("annotations") or {}).get("training.kubeflow.org/restarts", "0")
        detail = f"{status.get('phase')} restarts {base} {' '.join(filter(None, reasons))}"
    elif entry.kind == "PodGroup":
        detail = f"{obj.get('spec')} {status.get('phase') or ''}"
    elif entry.kind == "Deployment":
        detail = f"available {status.get('availableReplicas') or 0}"
    else:
        detail = ""
    return f"{entry.version} {entry.kind} {entry.what} {entry.name} {entry.uid[:8]} {detail}".rstrip()
