"""Which of a job's replicas are slow, by their reports alone."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.servers.progress.samples import report
from tfoperator.servers.progress.paces import advanced, seconds_per_step, slow_replicas
from tfoperator.servers.progress.reports import Pace


def pace(*steps: tuple[float, int], own: str = "", pod: str = "a", before: Pace | None = None) -> Pace:
    """The pace after reports of steps at these times."""
    metrics = {"step_seconds": own} if own else {}
    for at, step in steps:
        before = advanced(before, report(step=step, pod=pod, metrics=metrics), at)
    assert before is not None
    return before


def steady(seconds: float, *, begin: float = 0.0, reports: int = 12, period: float = 5.0) -> list[tuple[float, int]]:
    """Reports of a loop whose steps take so many seconds."""
    return [(begin + turn * period, int(turn * period / seconds)) for turn in range(reports)]


def step_seconds(measured: Pace) -> float | None:
    """The seconds per step when the last report has just come."""
    return seconds_per_step(measured, measured.at)


def slow(*seconds: float, before: Iterable[str] = ()) -> dict[str, float | None]:
    return judged({f"worker-{index}": pace(*steady(period)) for index, period in enumerate(seconds)}, before)


def judged(paces: Mapping[str, Pace], before: Iterable[str] = ()) -> dict[str, float | None]:
    return slow_replicas({name: report(name, pace=measured) for name, measured in paces.items()}, tuple(before))


def named(factors: dict[str, float | None]) -> list[str]:
    return [name for name, factor in factors.items() if factor is not None]


@pytest.mark.parametrize(
    ("seconds", "before", "expected"),
    [
        pytest.param((0.1, 0.1, 0.2, 0.1), (), {"worker-2": 2.0}, id="at half speed"),
        pytest.param((0.1, 0.2), (), {"worker-1": 2.0}, id="of two the slower"),
        pytest.param((0.1,), (), {}, id="one alone is compared with nobody"),
        pytest.param((0.1, 0.13, 0.16, 0.19, 0.22), (), {}, id="where all differ a far one is no wonder"),
        pytest.param((0.1, 0.1, 0.14), (), {}, id="a little slower"),
        pytest.param((0.1, 0.1, 0.14), ("worker-2",), {"worker-2": 1.4}, id="who was slow stays so"),
        pytest.param((0.1, 0.1, 0.12), ("worker-2",), {}, id="until it is clearly faster"),
    ],
)
def test_who_is_slow_is_named_with_the_factor(
    seconds: tuple[float, ...], before: tuple[str, ...], expected: dict[str, float]
) -> None:
    factors = slow(*seconds, before=before)
    assert {name: round(factor, 1) for name, factor in factors.items() if factor is not None} == expected
    assert len(factors) == (len(seconds) if len(seconds) > 1 else 0)


def test_a_pace_begins_anew_with_another_pod_a_lower_step_or_after_a_long_pause() -> None:
    reports = [(at + (9 if at > 25 else 0), step) for at, step in steady(0.1)]
    assert step_seconds(pace(*reports)) == step_seconds(pace(*steady(0.1)))
    reports = [(at + (20 if at > 50 else 0), step) for at, step in steady(0.1, reports=15)]
    assert step_seconds(pace(*reports[:11])) is not None
    assert step_seconds(pace(*reports)) is None
    then = pace(*steady(0.1))
    assert pace((60.0, 700), pod="b", before=then).intervals == ()
    assert pace((60.0, 10), before=then).intervals == ()
    assert pace((57.0, 10), before=then).step == 10
    assert len(pace((60.0, 700), before=then).intervals) > 5


def test_replicas_are_compared_with_those_of_their_type_by_their_own_work_and_never_while_they_are_silent() -> None:
    paces = {"chief-0": pace(*steady(1.0)), "worker-0": pace(*steady(0.1)), "worker-1": pace(*steady(0.1))}
    assert judged(paces) == {"worker-0": None, "worker-1": None}
    paces = {"worker-0": pace(*steady(0.1, reports=20)), "worker-1": pace(*steady(0.2, reports=17))}
    assert judged(paces) == {}
    assert named(judged(paces | {"worker-1": pace(*steady(0.2, reports=19))})) == ["worker-1"]
    paces = {f"worker-{index}": pace(*steady(0.2), own=own) for index, own in enumerate(["0.1", "0.1", "0.2"])}
    assert named(judged(paces)) == ["worker-2"]


def test_nothing_is_known_before_some_reports_nor_learnt_without_new_steps_and_the_newest_few_count() -> None:
    assert step_seconds(pace(*steady(0.1, reports=7))) is None
    assert step_seconds(pace(*steady(0.1, reports=8))) is not None
    assert step_seconds(pace(*steady(20.0, reports=6, period=20.0))) is None
    assert step_seconds(pace(*steady(0.1, reports=200, period=0.1))) is None
    then = pace(*steady(0.1))
    assert advanced(then, report(pod="a", metrics={"loss": "1"}), 99.0) is then
    assert advanced(then, report(pod="a", step=then.step), 99.0) is then
    assert advanced(None, report(pod="a"), 99.0) is None
    then = pace(*steady(0.1, reports=100))
    assert len(then.intervals) <= 12
    later = pace(*[(500.0 + turn * 5, 5000 + turn * 10) for turn in range(1, 12)], before=then)
    assert round(step_seconds(later) or 0, 2) == 0.5
    assert round(step_seconds(pace(*steady(60.0, reports=20, period=60.0))) or 0) == 60


@given(st.sampled_from(["", "nan", "inf", "-1", "0", "1e999", "1_0", "x" * 64]) | st.floats().map(str))
def test_no_text_of_a_program_makes_a_pace_that_is_no_number(text: str) -> None:
    paces = {f"worker-{index}": pace(*steady(0.2), own=own) for index, own in enumerate(["0.1", text])}
    for factor in judged(paces).values():
        assert factor is None or 1 <= factor < 1e12
