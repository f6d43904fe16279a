"""Plays one scenario from beginning to end, and says what the oracle found.

A plan has three phases. First every step of the scenario is played while faults are injected. Then there are no faults,
every operator runs, kubelets do their work, and the oracle is asked until it finds no violation or patience ends. At
last jobs are resumed, programs succeed, and every job has to end.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from hack.faults.injection.clock import ScaledClock
from hack.faults.injection.injector import FaultInjector
from hack.faults.injection.operators import OperatorProcesses, written_by
from hack.faults.injection.proxy import FaultProxy
from hack.faults.injection.servers import Server
from hack.faults.journal import Entry, JournalRecorder
from hack.faults.oracle.history import Violation
from hack.faults.oracle.judge import judge
from hack.faults.oracle.shards import Write, judge_writes
from hack.faults.plan.scenario import Scenario, make_scenario
from hack.faults.plan.shards import LAYOUTS
from hack.faults.plan.steps import Act, Step
from hack.faults.simulation.attachments import watched_kinds
from hack.faults.simulation.cluster import ClusterSimulator
from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError
from tfoperator.kube.resources import NAMESPACES

PATIENCE = 60.0
"""Real seconds, twenty minutes of the operators' time, in which a plan has to come to rest. Generous, for the machine
may be busy; a plan that needs none of it is over in a second or two."""

_QUIET = 0.15  # real seconds in which a plan at rest must stay so: three of the operators'
_QUIET_WRITES = 3  # the record of a comparison may fall into it
_POLL = 0.02
_COMPLETE_SECONDS = 60.0
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
    shards: bool = False,
    end: threading.Event | None = None,
) -> Result:
    """Play the plan of a seed in a namespace of its own. Raises Stopped soon after `end` is set, with all tidied up."""
    began = time.monotonic()
    scenario = make_scenario(seed, server.profile, plain=plain, shards=shards)
    injector = FaultInjector(
        str(seed), scenario.request_faults, scenario.event_faults, no_watch_list=scenario.no_watch_list
    )
    namespace = f"plan-{seed}-{time.monotonic_ns() % 10**9}"
    with ExitStack() as stack:
        client = stack.enter_context(server.client())
        client.create(NAMESPACES, "", {"metadata": {"name": namespace}}, _decode)
        stack.callback(_remove, client, namespace)
        proxy = stack.enter_context(FaultProxy(server.url, server.token, injector, certificate=server.certificate))
        recorder = stack.enter_context(JournalRecorder(client, namespace, watched_kinds(scenario.attachments)))
        operators = OperatorProcesses(
            scenario.operators, proxy.url, server.origin, folder, _options(scenario, server, namespace),
            read_deadline=server.read_deadline, layouts=LAYOUTS if shards else (),
        )  # fmt: skip
        stack.enter_context(operators)
        now = ScaledClock(server.origin).now
        simulator = ClusterSimulator(client, namespace, scenario.jobs, recorder, now, scenario.attachments)
        plan = _Plan(
            scenario, server, injector, proxy, recorder, operators, simulator, patience, end or threading.Event(),
            scenario.describe(),
        )  # fmt: skip
        proxy.on_write = plan.note_write
        violations = plan.run()
        history = plan.history if violations else []
        if violations:
            history += ["", "what the API server says:", *map(_line, simulator.journal().entries)]
            history += ["", "what the operators say:", operators.tail(60)]
    return Result(seed, time.monotonic() - began, violations, history, dict(injector.injected))


def _options(scenario: Scenario, server: Server, namespace: str) -> list[dict[str, object]]:
    options: dict[str, object] = {"namespace": [namespace], "unique_names": scenario.unique_names}
    options["gang_scheduler_name"] = scenario.attachments.gang
    if scenario.operators > 1:
        # One and a half real seconds: enough for a busy machine. Three operators with two leases each need more.
        scale = 2 if scenario.sharded else 1
        options |= {
            "leader_elect": True,
            "leader_elect_namespace": namespace,
            "leader_elect_lease_duration": 30.0 * scale,
            "leader_elect_renew_deadline": 20.0 * scale,
            "leader_elect_retry_period": 2.0,
        }
    if server.profile.wall_speed == 1:
        # Restart delays are measured by wall clocks, which run at the normal speed here.
        options |= {"restart_delay_base": 0.05, "restart_delay_cap": 0.2}
    return [options | {"default_network": network} for network in scenario.default_networks]


def _remove(client: Client, namespace: str) -> None:
    try:
        client.delete(NAMESPACES, "", namespace)
    except KubeError:
        pass  # it goes with its server


@dataclass
class _Plan:
    """`end` stops it; `history` is what it did, for people."""

    scenario: Scenario
    server: Server
    injector: FaultInjector
    proxy: FaultProxy
    recorder: JournalRecorder
    operators: OperatorProcesses
    simulator: ClusterSimulator
    patience: float
    end: threading.Event
    history: list[str]
    _paused: dict[int, float] = field(default_factory=dict)
    _stepped: float = 0.0
    _writes: list[Write] = field(default_factory=list)
    _were_paused: set[str] = field(default_factory=set)

    def note_write(self, agent: str, namespace: str, plural: str) -> None:
        """An operator asks for a change; leases and events say nothing about whom it serves."""
        if plural not in ("leases", "events") and (write := written_by(agent, namespace, time.monotonic())):
            self._writes.append(write)

    def run(self) -> list[Violation]:
        for step in self.scenario.steps:
            self._sleep(step.after)
            self._supervise_operators()
            self.history.append(f"{step}: {self._do(step)}")
        self._stop_faults()
        found = self._come_to_rest(finished=False)
        if found:
            return found
        self.history.append("at rest; now every job is let run to its end")
        self.simulator.resume_all()
        return self._come_to_rest(finished=True) or self._judge_shards()

    def _judge_shards(self) -> list[Violation]:
        return judge_writes(list(self._writes), self._were_paused) if self.scenario.sharded else []

    # While faults are injected.

    def _do(self, step: Step) -> str:
        members = self.operators.members
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
                self._were_paused.add(f"{number}.{members[number].starts - 1}")
                self._paused[number] = time.monotonic() + seconds
                return f"paused for {seconds} s"
            case Act.ROLL_OUT:
                self._paused.pop(step.value, None)
                members[step.value].roll_out()
                return f"killed and started in layout {members[step.value].layout}"
            case Act.CUT_NETWORK:
                self.proxy.cut()
                self._sleep(step.value)
                self.proxy.restore()
                return "cut and restored"
            case Act.STEP_CLOCK:
                self.operators.step_clock(step.value)
                self._stepped += step.value
                self.simulator.interventions.clock_stepped = True
                return "stepped"
            case Act.COMPACT:
                self.server.compact()
                return "compacted"
            case Act.RESTART_API:
                self.server.restart()
                return "restarted"
            case Act.PAUSE_ETCD:
                self.server.pause_storage(step.value)
                return "paused"
            case _:
                return self.simulator.act(step)

    def _supervise_operators(self) -> None:
        if self.end.is_set():
            raise Stopped
        now = time.monotonic()
        for number, end in list(self._paused.items()):
            if now >= end:
                self.operators.members[number].resume()
                del self._paused[number]
        self.operators.ensure()

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            self._supervise_operators()

    def _stop_faults(self) -> None:
        # A pause that is to outlast the lease does so.
        while self._paused:
            self._sleep(0.05)
        self.injector.stop()
        newest = max(member.layout for member in self.operators.members)
        for member in self.operators.members:
            while member.layout < newest:
                member.roll_out()
        # The clocks are set right again.
        self.operators.step_clock(-self._stepped)
        self.history.append("faults have stopped")

    # Without faults.

    def _come_to_rest(self, *, finished: bool) -> list[Violation]:
        began = time.monotonic()
        seen, found = -1, [Violation("stuck", "-", "nothing was seen yet")]
        while True:
            self._supervise_operators()
            self.simulator.make_progress(succeed=finished)
            if (count := self.recorder.count()) != seen:
                seen = count
                never, found = judge(self.simulator.journal(), finished=finished)
                if never and (never := self._confirmed(finished)):
                    return never
            if not found and not self.recorder.is_away and self._stays_quiet(finished):
                return []
            if time.monotonic() - began > self.patience:
                return found or [Violation("stuck", "-", "the operator keeps writing although nothing happens")]
            self.recorder.wait(_POLL)

    def _confirmed(self, finished: bool) -> list[Violation]:
        """Violations that no later event can undo, once the journal is complete: its watches are not equally far."""
        end = time.monotonic() + _COMPLETE_SECONDS
        while time.monotonic() < end:
            before = self.recorder.count()
            try:
                complete = self.recorder.is_complete()
            except KubeError:
                complete = False
            if complete and before == self.recorder.count():
                break
            self.recorder.wait(_POLL)
        return judge(self.simulator.journal(), finished=finished)[0]

    def _stays_quiet(self, finished: bool) -> bool:
        before = self.recorder.count()
        time.sleep(_QUIET)
        if self.recorder.count() - before > _QUIET_WRITES:
            return False
        never, end = judge(self.simulator.journal(), finished=finished)
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
