import random

import msgspec
import pytest

from hack import fuzz
from hack.random_jobs import random_case
from tfoperator.controller.plan.values.actions import Plan
from tfoperator.controller.plan.values.observed import Observed, PlanOptions


def test_no_job_of_a_small_fixed_number_raises_or_spins_and_a_case_is_the_same_each_time() -> None:
    assert 100 < fuzz.fuzz("unit", range(150)) < 150
    assert random_case(random.Random("unit:1")) == random_case(random.Random("unit:1"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"requeue_after": -1.0}, "-1.0"),
        ({"requeue_after": 0.0}, "requeued at once"),
        ({"write_status": True}, "nothing new"),
    ],
)
def test_a_plan_that_misbehaves_is_found_and_can_be_replayed(
    change: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def misbehaving(observed: Observed, now: object, options: PlanOptions) -> Plan:
        return msgspec.structs.replace(Plan(status=observed.job.status), **change)

    monkeypatch.setattr(fuzz, "plan", misbehaving)
    assert fuzz.main(["--seed", "unit", "--count", "20"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "seed unit\n"
    assert "seed unit, number " in captured.err
    assert text in captured.err
