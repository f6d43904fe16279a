from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tfoperator.kube import ServerLoad


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def load(clock: FakeClock) -> ServerLoad:
    return ServerLoad(clock=clock)


def write(load: ServerLoad, seconds: float, *, times: int = 20, kind: str = "pods", namespace: str = "ns") -> None:
    for _ in range(times):
        load.written("POST", kind, namespace, seconds)


def test_nothing_known_is_not_busy(load: ServerLoad) -> None:
    assert load.level() == 0


def test_a_server_that_answers_as_quickly_as_ever_is_not_busy(load: ServerLoad) -> None:
    write(load, 0.010)
    write(load, 0.019)
    assert load.level() == 0


def test_the_slower_it_answers_the_busier_it_is(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.010, times=1)
    clock.advance(60)
    write(load, 0.060)
    half = load.level()
    assert half == pytest.approx(0.5, abs=0.05)
    clock.advance(60)
    write(load, 0.200)
    assert load.level() == pytest.approx(1)


def test_a_single_slow_write_says_little(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.010, times=1)
    clock.advance(60)
    write(load, 5.0, times=1)
    assert 0 < load.level() < 0.5
    clock.advance(60)
    write(load, 0.010)
    write(load, 5.0, times=1)
    assert load.level() == 0


def test_writes_are_compared_with_those_of_their_kind(load: ServerLoad) -> None:
    write(load, 0.002, kind="events")
    write(load, 0.100, kind="pods")
    assert load.level() == 0


def test_one_namespace_whose_webhook_is_slow_says_nothing_of_the_others(load: ServerLoad) -> None:
    write(load, 0.010, namespace="quick")
    for _ in range(20):
        write(load, 3.0, times=1, namespace="slow")
        write(load, 0.010, times=1, namespace="quick")
    assert load.level() == 0


def test_where_all_is_written_into_one_namespace_that_is_all_there_is_to_go_by(load: ServerLoad) -> None:
    write(load, 0.010, times=1)
    write(load, 3.0)
    assert load.level() > 0.9


def test_a_busy_server_is_slow_in_every_namespace(load: ServerLoad, clock: FakeClock) -> None:
    for namespace in ("a", "b", "c"):
        write(load, 0.010, times=1, namespace=namespace)
    clock.advance(60)
    for namespace in ("a", "b", "c"):
        write(load, 0.200, namespace=namespace)
    assert load.level() == pytest.approx(1)


def test_of_many_namespaces_those_written_to_last_count(load: ServerLoad) -> None:
    for number in range(1000):
        write(load, 0.010, times=2, namespace=f"quick-{number}")
    assert load.level() == 0
    for number in range(40):
        write(load, 1.0, namespace=f"slow-{number}")
    assert load.level() == 1
    assert len(load._averages) <= 64


def test_jitter_of_a_quick_server_is_no_load(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.0005, times=1)
    clock.advance(60)
    write(load, 0.005)
    assert load.level() == 0


def test_it_is_idle_again_soon_after_the_last_slow_write(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.010, times=1)
    write(load, 1.0, times=10_000)
    assert load.level() == pytest.approx(1)
    clock.advance(15)
    assert load.level() == 0


def test_quick_answers_end_it_sooner_than_silence(clock: FakeClock) -> None:
    quick, silent = ServerLoad(clock=clock), ServerLoad(clock=clock)
    for one in (quick, silent):
        write(one, 0.010, times=1)
        write(one, 1.0)
    clock.advance(2)
    write(quick, 0.010)
    assert quick.level() < silent.level()


def test_of_a_burst_the_last_writes_count(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.010, times=1)
    write(load, 1.0, times=10_000)
    write(load, 0.010, times=60)
    assert load.level() == 0


def test_a_server_that_turns_us_away_is_as_busy_as_it_gets_for_as_long_as_it_says(
    load: ServerLoad, clock: FakeClock
) -> None:
    load.turned_away(10.0)
    clock.advance(9.9)
    write(load, 0.010)
    assert load.level() == 1
    clock.advance(20)
    write(load, 0.010)
    assert load.level() == 0


def test_without_a_time_it_is_busy_until_other_writes_say_otherwise(load: ServerLoad, clock: FakeClock) -> None:
    load.turned_away(0.0)
    assert load.level() == 1
    clock.advance(3)
    assert 0 < load.level() < 1
    write(load, 0.010)
    assert load.level() == 0


def test_a_wish_for_an_hour_is_not_believed(load: ServerLoad, clock: FakeClock) -> None:
    load.turned_away(3600.0)
    clock.advance(120)
    assert load.level() == 0


def test_a_server_that_has_become_slower_for_good_is_not_busy_for_ever(load: ServerLoad, clock: FakeClock) -> None:
    write(load, 0.010)
    for _ in range(24 * 60):
        clock.advance(60)
        write(load, 0.200, times=3)
    assert load.level() == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("written"), st.sampled_from(["pods", "events"]), st.floats(0, 1e6)),
        st.tuples(st.just("turned_away"), st.just(""), st.floats(0, 1e9)),
        st.tuples(st.just("wait"), st.just(""), st.floats(0, 1e9)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_whatever_happens_it_is_between_idle_and_busy_and_idle_in_the_end(steps: list[tuple[str, str, float]]) -> None:
    clock = FakeClock()
    load = ServerLoad(clock=clock)
    for step, kind, seconds in steps:
        do: dict[str, Callable[[], None]] = {
            "written": lambda k=kind, s=seconds: load.written("POST", k, k, s),  # type: ignore[misc]
            "turned_away": lambda s=seconds: load.turned_away(s),  # type: ignore[misc]
            "wait": lambda s=seconds: clock.advance(s),  # type: ignore[misc]
        }
        do[step]()
        assert 0 <= load.level() <= 1
    clock.advance(120)
    assert load.level() == 0
