"""The environment of operators while a plan is played (processes, network, clocks, API server), and its faults."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from hack.faults.injection.injector import FaultInjector
from hack.faults.injection.operators import OperatorProcesses
from hack.faults.injection.proxy import FaultProxy
from hack.faults.injection.servers import Server
from hack.faults.plan.steps import Act, Step
from hack.faults.simulation.cluster import ClusterSimulator


class Stopped(Exception):
    """The plan was not played to its end, because it was stopped."""


@dataclass
class Environment:
    """For one thread. A method that waits raises Stopped soon after `end` is set."""

    server: Server
    injector: FaultInjector
    proxy: FaultProxy
    operators: OperatorProcesses
    simulator: ClusterSimulator
    end: threading.Event
    _paused: dict[int, float] = field(default_factory=dict)  # until when, by member
    _stepped: float = 0.0

    def do(self, step: Step) -> str:
        """Do a step; return the result, for people."""
        match step.act:
            case Act.KILL_OPERATOR | Act.PAUSE_OPERATOR:
                return self._do_to_operator(step)
            case Act.CUT_NETWORK:
                self.proxy.cut()
                self.sleep(step.value)
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

    def _do_to_operator(self, step: Step) -> str:
        members = self.operators.members
        if step.act is Act.PAUSE_OPERATOR:
            number, seconds = step.value
            if number in self._paused:
                return "it is paused already"
            members[number].pause()
            self._paused[number] = time.monotonic() + seconds
            return f"paused for {seconds} s"
        self._paused.pop(step.value, None)
        members[step.value].kill()
        members[step.value].start()
        return "killed and started"

    def supervise(self) -> None:
        """End pauses that are over, and start operators again that have ended."""
        if self.end.is_set():
            raise Stopped
        now = time.monotonic()
        for number, end in list(self._paused.items()):
            if now >= end:
                self.operators.members[number].resume()
                del self._paused[number]
        self.operators.ensure()

    def sleep(self, seconds: float) -> None:
        """Let real seconds pass."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            self.supervise()

    def stop_faults(self) -> None:
        """From now on nothing is wrong: every operator runs, and clocks are right."""
        # A pause that is to outlast the lease does so.
        while self._paused:
            self.sleep(0.05)
        self.injector.stop()
        self.operators.step_clock(-self._stepped)
