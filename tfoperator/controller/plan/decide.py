"""Decides everything that happens to a TFJob: values in, value out.

`plan()` has no clock, no client and no log, so its behaviour can be tested by tables and properties, and a sync is
"look, decide, act" with all the deciding in one place. It is level-triggered: it looks at the whole observed state,
never at what just happened, so a missed event or a crash between two actions changes nothing but the time.

Three kinds of frozen values follow on one another:

1. Facts (`look`, look.py): what is observed, and what follows from that: the replicas with their states, the restarts,
   the deadlines, and at last the verdict about the job (verdict.py), which is its stage.
2. Proposals (`propose`, rules.py): each rule of that stage reads the facts, and yields what it wants. No rule sees the
   proposal of another.
3. The plan (`combine`, combine.py), which alone knows what wins where two rules want different things.

The job's usage is an observer beside them: it decides nothing, and is written along.
"""

from __future__ import annotations

from datetime import datetime

from tfoperator.api.limits import MANAGED_BY_OPERATOR
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.actions import Plan
from tfoperator.controller.plan.combine import combine
from tfoperator.controller.plan.invalid import invalid_facts
from tfoperator.controller.plan.look import look
from tfoperator.controller.plan.observed import Observed, PlanOptions
from tfoperator.controller.plan.rules import propose
from tfoperator.controller.plan.usage import account, with_goodput
from tfoperator.controller.pods.template import PodTemplateError


def plan(observed: Observed, now: datetime, options: PlanOptions) -> Plan:
    """Return the plan for the job at `now` (UTC), whatever the job or its pods look like.

    Raises NotKept alone: it takes a template of which the job has a hash.
    """
    job = observed.job
    if job.metadata.deletion_timestamp is not None or is_managed_by_others(job):
        # A deleted job's pods and services go with it: the garbage collector follows the owner references.
        return Plan(status=job.status)
    try:
        facts = look(observed, now, options)
        proposals = propose(facts)
    except PodTemplateError as error:
        # No part of the half-made proposals may be carried out.
        facts = invalid_facts(observed, now, options, (str(error),))
        proposals = propose(facts)
    return with_goodput(combine(facts, proposals, account(facts)), now)


def is_managed_by_others(job: TFJob) -> bool:
    """Return whether `runPolicy.managedBy` gives the job to another controller."""
    return (job.spec.policy.managed_by or MANAGED_BY_OPERATOR) != MANAGED_BY_OPERATOR
