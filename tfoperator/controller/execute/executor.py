"""Executes a plan: first the phases of actions, then the status (or the status before the phases), then the events.

A phase is a part of the plan, for example the actions on pods. The status must be stored before the phases if, for
example, it counts a restart. The status is written even if an action failed, because the status describes the objects
that the sync observed. If the API server refuses the job's objects permanently, the status is not written: the next
plan writes a status that reports the refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfoperator.api.v1.types import TFJob
from tfoperator.controller.collaborators import Collaborators
from tfoperator.controller.execute.apply import ActionRunner
from tfoperator.controller.execute.outcome import Applied, Outcome
from tfoperator.controller.execute.report import JobEvents, OutcomeReporter
from tfoperator.controller.execute.status import StatusWriter
from tfoperator.controller.kinds import ObjectKind
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.plan.values.actions import PhaseName, Plan
from tfoperator.kube.protocol.resources import Resource

NOTHING_REFUSED: Mapping[str, str] = {}


class PlanExecutor:
    """Executes plans.

    It may run for different jobs at the same time; the caller must run only one plan per job at a time.
    """

    def __init__(
        self,
        outside: Collaborators,
        resources: Mapping[ObjectKind, Resource],
        ledger: Ledger,
        plan_again: Callable[[str], None],
    ) -> None:
        """Initialize; `resources` has PodGroups only with a gang scheduler: without it, plans have no PodGroups.

        After logs were archived or read, or stacks were taken, another thread calls `plan_again` with the job's key.
        """
        self._memory = ledger.memory
        self._events = JobEvents(outside.recorder, ledger.memory)
        self._report = OutcomeReporter(outside, self._events, ledger.memory)
        self._status = StatusWriter(outside, ledger, self._events)
        self._runner = ActionRunner(outside, resources, ledger, plan_again)

    def execute(self, job: TFJob, plan: Plan, refused: Mapping[str, str] = NOTHING_REFUSED) -> Outcome:
        """Carry out a plan made for `job`. API errors are in the outcome, not raised.

        `refused` maps the name of each object that could not be adopted or released to the reason. The outcome contains
        these reasons as errors, so that the next sync tries again.
        """
        outcome = Outcome()
        if refused:
            self._report.unclaimed(job, refused, outcome)
        if plan.write_status_first and not self._status.write(job, plan, outcome):
            return outcome
        self._runner.look(job, plan.looks)
        incomplete: set[PhaseName] = set()
        applied: list[Applied] = []
        for phase in plan.phases:
            applied += self._runner.run(job, phase, incomplete)
            if phase.name is PhaseName.NETWORK and phase is not plan.phases[-1] and phase.name not in incomplete:
                continue  # reported together with the pods: an event costs as much as the service
            self._report.of(job, applied, outcome)
            applied = []
            if outcome.refused:
                outcome.replan = self._memory.refuse(job.metadata.uid, job.metadata.generation, outcome.refused)
                return outcome
        if plan.write_status and not plan.write_status_first and not self._status.write(job, plan, outcome):
            return outcome
        if plan.events:
            self._events.emit(job, plan.events)
        return outcome
