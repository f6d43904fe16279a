"""Sets the condition Diverged: for some time, the loss that a job reports has not been a number. Pure.

The condition does not fail the job: a person, or a program that waits for the condition, decides whether to stop the
job. The condition stays true when the job ends, because the result of the training is useless.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.api.fields.limits import MAX_NOT_A_NUMBER
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.losses import loss_is_a_number
from tfoperator.api.v1.reasons import JobReason
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import SetCondition, Want, event, observation


def report_divergence(facts: Facts) -> Iterator[Want]:
    """Set the condition Diverged after ten reports in a row whose loss is NaN or infinite, and send an event.

    The next report whose loss is a number makes the condition false.
    """
    reported = facts.observed.reported
    if reported is None:
        return
    is_true, key = facts.is_true(ConditionType.DIVERGED), facts.job.metadata.key
    if reported.loss_not_a_number >= MAX_NOT_A_NUMBER and not is_true:
        message = (
            f"The loss of TFJob {key} is not a number (NaN or infinite): {reported.replica} has reported this "
            f"{MAX_NOT_A_NUMBER} times in a row. Stop the job, and continue from an earlier checkpoint with a lower "
            "learning rate or with other data."
        )
        yield SetCondition(ConditionType.DIVERGED, "True", JobReason.LOSS_IS_NOT_A_NUMBER, message)
        yield event(JobReason.LOSS_IS_NOT_A_NUMBER, message)
    elif is_true and reported.loss_not_a_number == 0 and loss_is_a_number(reported.metrics):
        # The loss itself is checked, too, because a CRD of an older release drops `lossNotANumber`, so the count reads
        # as 0.
        message = f"The loss of TFJob {key} is a number again."
        yield observation(ConditionType.DIVERGED, message, holds=False)
