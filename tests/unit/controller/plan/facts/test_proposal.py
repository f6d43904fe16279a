"""The things that a rule may want."""

import pytest

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.controller.plan.facts.proposal import SetCondition, observation


def test_an_observation_has_the_reason_that_the_row_of_its_condition_declares() -> None:
    ready = SetCondition(ConditionType.READY, "True", "TFJobReady", "all", if_there=False)  # type: ignore[arg-type]
    assert observation(ConditionType.READY, "all", holds=True) == ready
    proposal = observation(ConditionType.READY, "some", holds=False, if_there=True)
    assert (proposal.status, proposal.reason, proposal.if_there) == ("False", "TFJobNotReady", True)


def test_without_a_declared_reason_the_error_names_the_place_for_it() -> None:
    with pytest.raises(TypeError, match="the row of Failed in ConditionType has no when_false"):
        observation(ConditionType.FAILED, "it has not", holds=False)
