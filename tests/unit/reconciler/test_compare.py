from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfoperator.reconciler import Difference, Version, confirmed, differences

A1, A2, B1 = Version("a", "1"), Version("a", "2"), Version("b", "1")


def test_equal_views_have_no_differences() -> None:
    assert differences({"x": A1}, {"x": A1}, "9") == {}


def test_missing_changed_and_surplus_objects_are_found() -> None:
    live = {"new": A1, "changed": A2}
    cached = {"changed": A1, "gone": B1}
    assert differences(live, cached, "9") == {
        "new": Difference(A1, None),
        "changed": Difference(A2, A1),
        "gone": Difference(None, B1),
    }


def test_a_cache_that_is_ahead_of_the_list_is_right() -> None:
    assert differences({"x": A1}, {"x": A2}, "1") == {}
    assert differences({}, {"x": Version("x", "10")}, "9") == {}


def test_an_object_made_anew_is_a_difference_by_its_uid() -> None:
    assert differences({"x": Version("b", "5")}, {"x": Version("a", "4")}, "9") == {
        "x": Difference(Version("b", "5"), Version("a", "4"))
    }


def test_only_a_difference_that_has_not_moved_is_confirmed() -> None:
    before = {"stuck": Difference(A2, A1), "cache moved": Difference(A2, None), "server moved": Difference(A1, None)}
    now = {"stuck": Difference(A2, A1), "cache moved": Difference(A2, A1), "server moved": Difference(A2, None)}
    assert confirmed(before, now) == {"stuck"}
    assert confirmed({}, now) == set()


EVENTS = st.lists(st.sampled_from(["create", "update", "delete"]), min_size=1, max_size=12)


@given(EVENTS, st.data())
def test_a_living_watch_however_slow_is_never_suspected_twice_while_it_moves(
    events: list[str], data: st.DataObject
) -> None:
    """A cache that lags behind but advances between two looks is never called broken."""
    history: list[dict[str, Version]] = [{}]
    for version, event in enumerate(events, start=1):
        state = dict(history[-1])
        if event == "delete":
            state.pop("x", None)
        elif event == "create" or "x" in state:
            uid = state["x"].uid if "x" in state else f"uid-{version}"
            state["x"] = Version(uid, str(version))
        history.append(state)
    last = len(history) - 1
    first_look = data.draw(st.integers(0, last))
    cache_then = data.draw(st.integers(0, last))
    second_look = data.draw(st.integers(max(first_look, cache_then), last))
    # The watch is alive: by the second reading it has delivered what the first list showed.
    cache_now = data.draw(st.integers(max(first_look, cache_then), last))
    before = differences(history[first_look], history[cache_then], str(first_look))
    now = differences(history[second_look], history[cache_now], str(second_look))
    # One coincidence can't be told from a lost event, and costs a relist: the cache has seen the object come and go
    # between the looks, and the second list is just old enough to show it still.
    came_and_went = "x" not in history[cache_then] and "x" not in history[cache_now]
    assert confirmed(before, now) <= ({"x"} if came_and_went else set())
