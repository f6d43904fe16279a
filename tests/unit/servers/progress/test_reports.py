import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.fields.limits import MAX_NOT_A_NUMBER
from tfoperator.servers.progress.reports import (
    MAX_METRICS,
    InvalidReport,
    MalformedReport,
    ProgressReport,
    encode_report,
    parse_report,
    reports_without_a_number,
)

NOW = datetime(2026, 5, 1, 12, 0, 7, 654321, tzinfo=UTC)


def parsed(status: Any) -> ProgressReport:
    return parse_report(json.dumps({"trainerStatus": status}).encode(), "worker-0", NOW)


def test_a_report_is_read_with_its_steps_and_the_time_at_which_it_came_and_answered_as_it_was_understood() -> None:
    metrics = [{"name": "loss", "value": "0.23"}, {"name": "current_step", "value": "430"}]
    metrics.append({"name": "total_steps", "value": "1000"})
    status = {"progressPercentage": 43, "estimatedRemainingSeconds": 200, "metrics": metrics}
    report = parsed({**status, "lastUpdatedTime": "2031-01-01T00:00:00.123+02:00", "somethingNew": {"a": 1}})
    assert (report.percentage, report.estimated_remaining_seconds, report.step, report.total_steps) == (
        43,
        200,
        430,
        1000,
    )
    assert [(metric.name, metric.value) for metric in report.metrics] == [("loss", "0.23")]
    assert report.time == NOW.replace(microsecond=0)
    metrics = [{"name": "loss", "value": "1"}, {"name": "current_step", "value": "5"}]
    sent = {"progressPercentage": 43, "metrics": metrics}
    answered = json.loads(encode_report(parsed(sent)))["trainerStatus"]
    assert answered.pop("lastUpdatedTime") == "2026-05-01T12:00:07Z"
    assert answered == sent
    assert parsed(answered) == parsed(sent)


def test_each_member_is_optional_null_is_absent_and_steps_are_numbers_or_not_known() -> None:
    nothing = parsed({})
    assert nothing == ProgressReport(replica="worker-0", time=NOW.replace(microsecond=0))
    absent = dict.fromkeys(("progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime"))
    assert parsed(absent) == nothing
    for text, step in {"5": 5, "5.0": 5, "1e3": 1000, "-1": None, "nan": None, "x": None}.items():
        assert parsed({"metrics": [{"name": "current_step", "value": text}]}).step == step, text


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"progressPercentage": 101}, "progressPercentage"),
        ({"progressPercentage": -1}, "progressPercentage"),
        ({"progressPercentage": 10**400}, "progressPercentage"),
        ({"estimatedRemainingSeconds": 10**400}, "estimatedRemainingSeconds"),
        ({"progressPercentage": True}, "progressPercentage"),
        ({"progressPercentage": "43"}, "progressPercentage"),
        ({"estimatedRemainingSeconds": -1}, "estimatedRemainingSeconds"),
        ({"estimatedRemainingSeconds": 2**64}, "estimatedRemainingSeconds"),
        ({"lastUpdatedTime": "yesterday"}, "lastUpdatedTime"),
        ({"metrics": {"loss": 1}}, "metrics"),
        ({"metrics": [1]}, "metrics[0]"),
        ({"metrics": [{"name": "loss", "value": 0.2}]}, "metrics[0].value"),
        ({"metrics": [{"name": "", "value": "1"}]}, "metrics[0].name"),
        ({"metrics": [{"name": "x" * 65, "value": "1"}]}, "metrics[0].name"),
        ({"metrics": [{"name": "x", "value": "1" * 65}]}, "metrics[0].value"),
        ({"metrics": [{"name": f"m{i}", "value": "1"} for i in range(MAX_METRICS + 1)]}, "metrics"),
    ],
)
def test_a_wrong_value_is_named_by_its_field(status: Any, field: str) -> None:
    with pytest.raises(InvalidReport) as caught:
        parsed(status)
    assert str(caught.value).startswith(f"trainerStatus.{field}: must")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'"x"', b"{}", b'{"trainerStatus": 1}', b"[" * 60_000])
def test_what_is_no_report_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedReport):
        parse_report(body, "worker-0", NOW)


_NUMBERS = st.integers() | st.integers(min_value=10**300, max_value=10**400) | st.floats()
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
_NAMES = st.sampled_from(["progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime", "x"])


@given(st.dictionaries(_NAMES, _VALUES, max_size=5))
def test_whatever_is_sent_is_a_report_within_bounds_or_is_refused(status: dict[str, Any]) -> None:
    try:
        report = parsed(status)
    except (MalformedReport, InvalidReport):
        return
    assert report.percentage is None or 0 <= report.percentage <= 100
    assert report.step is None or 0 <= report.step <= 2**53
    assert parse_report(encode_report(report), "worker-0", NOW) == report


def test_reports_in_a_row_whose_loss_is_no_number_are_counted_up_to_ten() -> None:
    def after(*values: str, name: str = "loss") -> int:
        before: ProgressReport | None = None
        for value in values:
            now = parsed({"metrics": [{"name": name, "value": value}]})
            before = msgspec.structs.replace(now, loss_not_a_number=reports_without_a_number(before, now))
        return 0 if before is None else before.loss_not_a_number

    assert after("0.5", "nan", "NaN", "-inf") == 3
    assert after(*["nan"] * 30) == MAX_NOT_A_NUMBER
    assert after(*["nan"] * 30, "0.5") == 0
    assert after("soon") == 0, "text is none at all"
    assert after("nan", name="Train_Loss") == 1
    assert after("nan", name="perplexity") == 0
    spoilt = ProgressReport("worker-0", NOW, loss_not_a_number=4)
    assert reports_without_a_number(spoilt, parsed({"metrics": [{"name": "accuracy", "value": "0.1"}]})) == 4
