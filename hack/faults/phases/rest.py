"""Waits until a plan has come to rest: the oracle finds nothing wrong, and all writes have ended."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hack.faults.journal import JournalRecorder
from hack.faults.oracle.history import Violation
from hack.faults.oracle.judge import judge
from hack.faults.phases.environment import Environment
from tfoperator.kube.protocol.errors import KubeError

_QUIET = 0.15  # real seconds in which a plan at rest must stay so: three of the operators'
_QUIET_WRITES = 3  # the record of a comparison may fall into it
_POLL = 0.02
_COMPLETE_SECONDS = 60.0


@dataclass
class Rest:
    """For one thread. `patience` is in real seconds."""

    environment: Environment
    recorder: JournalRecorder
    patience: float

    def wait(self, *, finished: bool) -> list[Violation]:
        """Wait until the oracle finds no violation. Return violations that are left at the end, or can't be undone.

        With `finished` all programs succeed, and every job has to end.
        """
        simulator = self.environment.simulator
        began = time.monotonic()
        judged_count, violations = -1, [Violation("stuck", "-", "nothing was seen yet")]
        while True:
            self.environment.supervise()
            simulator.make_progress(succeed=finished)
            if (count := self.recorder.count()) != judged_count:
                judged_count = count
                never, violations = judge(simulator.journal(), finished=finished)
                if never and (never := self._confirmed(finished)):
                    return never
            if not violations and not self.recorder.is_away and self._stays_quiet(finished):
                return []
            if time.monotonic() - began > self.patience:
                return violations or [Violation("stuck", "-", "the operator keeps writing although nothing happens")]
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
        return judge(self.environment.simulator.journal(), finished=finished)[0]

    def _stays_quiet(self, finished: bool) -> bool:
        before = self.recorder.count()
        time.sleep(_QUIET)
        if self.recorder.count() - before > _QUIET_WRITES:
            return False
        never, end = judge(self.environment.simulator.journal(), finished=finished)
        return not never and not end
