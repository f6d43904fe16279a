"""Plays one scenario from beginning to end, and returns the violations that the oracle found.

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
from hack.faults.injection.operators import OperatorProcesses
from hack.faults.injection.proxy import FaultProxy
from hack.faults.injection.servers import Server
from hack.faults.journal import JournalRecorder
from hack.faults.oracle.history import Violation
from hack.faults.phases.environment import Environment
from hack.faults.phases.rest import Rest
from hack.faults.plan.scenario import Scenario, make_scenario
from hack.faults.simulation.attachments import watched_kinds
from hack.faults.simulation.cluster import ClusterSimulator
from hack.faults.telling import line
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import NAMESPACES

PATIENCE = 60.0
"""Real seconds, twenty minutes of the operators' time, in which a plan has to come to rest. Generous, for the machine
may be busy; a plan that needs none of it is over in a second or two."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


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
            read_deadline=server.read_deadline,
        )  # fmt: skip
        stack.enter_context(operators)
        now = ScaledClock(server.origin).now
        simulator = ClusterSimulator(client, namespace, scenario.jobs, recorder, now, scenario.attachments)
        environment = Environment(server, injector, proxy, operators, simulator, end or threading.Event())
        plan = _Plan(scenario, environment, Rest(environment, recorder, patience), scenario.describe())
        violations = plan.run()
        history = plan.history if violations else []
        if violations:
            history += ["", "what the API server says:", *map(line, simulator.journal().entries)]
            history += ["", "what the operators say:", operators.tail(60)]
    return Result(seed, time.monotonic() - began, violations, history, dict(injector.injected))


def _options(scenario: Scenario, server: Server, namespace: str) -> list[dict[str, object]]:
    options: dict[str, object] = {"namespace": [namespace], "unique_names": scenario.unique_names}
    options |= {"gang_scheduler_name": scenario.attachments.gang, "exposed_tensorboards": True}
    if scenario.operators > 1:
        # One and a half real seconds: enough for a busy machine.
        options |= {
            "leader_elect": True,
            "leader_elect_namespace": namespace,
            "leader_elect_lease_duration": 30.0,
            "leader_elect_renew_deadline": 20.0,
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
    """`history` is what it did, for people."""

    scenario: Scenario
    environment: Environment
    rest: Rest
    history: list[str]

    def run(self) -> list[Violation]:
        environment = self.environment
        for step in self.scenario.steps:
            environment.sleep(step.after)
            environment.supervise()
            self.history.append(f"{step}: {environment.do(step)}")
        environment.stop_faults()
        self.history.append("faults have stopped")
        violations = self.rest.wait(finished=False)
        if violations:
            return violations
        self.history.append("at rest; now every job is let run to its end")
        environment.simulator.resume_all()
        return self.rest.wait(finished=True)
