from datetime import UTC, datetime, timedelta

import pytest

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.cli.views.jobs import age, job_row
from tfoperator.kube.views.objects import ObjectMeta


@pytest.mark.parametrize(
    ("true", "state"),
    [
        (["Running"], "Running"),
        (["Running", "Stalled"], "Stalled"),
        (["Stalled", "Failed"], "Failed"),
        (["Stalled", "Suspended"], "Suspended"),
    ],
)
def test_a_job_that_has_stalled_is_called_so_while_it_runs(true: list[str], state: str) -> None:
    conditions = tuple(JobCondition(ConditionType(name), "True", "R", f"about {name}") for name in true)
    job = TFJob(metadata=ObjectMeta(name="a"), status=TFJobStatus(conditions=conditions))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert job_row(job, now, wide=True)[1] == state
    assert job_row(job, now, wide=True)[-1] == f"about {state}"
    assert (age(now - timedelta(minutes=5), now), age(None, now)) == ("5m", "-")
