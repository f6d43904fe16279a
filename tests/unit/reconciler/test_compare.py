from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, OwnerReference, PartialObject
from tfoperator.reconciler.compare import Collation, Difference, Version, confirmed

A1, A2, B1 = Version("a", "1"), Version("a", "2"), Version("b", "1")

State = Mapping[str, Version]


class Cache:
    """A cache of objects that a test exchanges as a whole; `owners` are by key."""

    def __init__(self, state: State, owners: Mapping[str, str] = MappingProxyType({})) -> None:
        self.state = state
        self.owners = owners

    def get_all(self, keys: Sequence[str]) -> list[HasMetadata | None]:
        return [self._object(key, self.state[key]) if key in self.state else None for key in keys]

    def _object(self, key: str, version: Version) -> HasMetadata:
        owners = tuple(OwnerReference(uid=uid, controller=True) for uid in [self.owners.get(key)] if uid)
        meta = ObjectMeta(name=key, uid=version.uid, resource_version=version.resource_version, owner_references=owners)
        return HasMetadata(metadata=meta)


def identity(key: str, version: Version, owner: str = "") -> PartialObject:
    owners = [{"uid": "somebody else"}, {"uid": owner, "controller": True}] if owner else []
    meta = {"name": key, "uid": version.uid, "resourceVersion": version.resource_version, "ownerReferences": owners}
    return msgspec.convert({"metadata": meta}, PartialObject)


def listed(collation: Collation, live: State, cached: State, version: str) -> None:
    """A whole list, an object a page."""
    collation.list_begins(cached)
    for key, obj in live.items():
        collation.listed([identity(key, obj)], version)
    collation.list_ended(version)


def differences(live: State, cached: State, version: str, reached: str = "0") -> Mapping[str, Difference]:
    """Return the differences that a whole list shows of objects without owners, with the cache at a version."""
    collation = Collation(Cache(cached).get_all)
    listed(collation, live, cached, version)
    return collation.differences(reached).get("", {})


States = Mapping[str, tuple[Version | None, Version | None]]


def states(by_key: Mapping[str, Difference]) -> States:
    return {key: (difference.live, difference.cached) for key, difference in by_key.items()}


def shown(live: State, cached: State, version: str) -> States:
    return states(differences(live, cached, version))


def test_missing_changed_renewed_and_surplus_objects_are_found() -> None:
    live = {"same": A1, "new": A1, "changed": A2, "made anew": Version("b", "5")}
    cached = {"same": A1, "changed": A1, "gone": B1, "made anew": Version("a", "4")}
    assert differences(live, cached, "9") == {
        "new": Difference(A1, None, "9", "0"),
        "changed": Difference(A2, A1, "9", "0"),
        "gone": Difference(None, B1, "9", "0"),
        "made anew": Difference(Version("b", "5"), Version("a", "4"), "9", "0"),
    }


def test_a_cache_that_is_ahead_of_the_list_is_right() -> None:
    assert differences({"x": A1}, {"x": A2}, "1") == {}
    assert differences({}, {"x": Version("x", "10")}, "9") == {}


def test_a_cache_that_shows_what_the_server_has_lost_is_wrong_however_new_it_looks() -> None:
    """A backup was restored: `x` is as old as that, and the versions have passed what the cache shows of it."""
    live, cached = {"x": Version("a", "3")}, {"x": Version("a", "8"), "lost": Version("b", "7")}
    wrong = {name: Difference(live.get(name), version, "9", "0") for name, version in cached.items()}
    assert differences(live, cached, "9") == wrong
    assert differences(live, cached, "6") == {}


def test_a_difference_concerns_the_owner_on_either_side() -> None:
    collation = Collation(Cache({"x": A1, "gone": B1}, {"x": "old", "gone": "other"}).get_all)
    collation.list_begins(["x", "gone"])
    collation.listed([identity("x", A2, owner="new"), identity("orphan", A1)], "9")
    collation.list_ended("9")
    keys = {owner: set(of_owner) for owner, of_owner in collation.differences("0").items()}
    assert keys == {"old": {"x"}, "new": {"x"}, "other": {"gone"}, "": {"orphan"}}


def test_what_looks_different_stays_so_until_the_cache_has_it_or_the_server_says_otherwise() -> None:
    cache = Cache({"late": A1, "wrong": A1})
    collation = Collation(cache.get_all)
    listed(collation, {"late": A2, "wrong": A2, "lost": B1}, cache.state, "9")
    first = collation.differences("0").get("", {})
    assert set(first) == {"late", "wrong", "lost"}
    cache.state = {"late": A2, "wrong": A1}
    collation.happened(identity("lost", Version("b", "10")), deleted=True)
    assert confirmed(first, collation.differences("0").get("", {})) == {"wrong"}


EVENTS = st.lists(st.sampled_from(["create", "update", "delete"]), min_size=1, max_size=12)


def history_of(events: Sequence[str]) -> list[State]:
    """The states of a collection after each event, the first at version 0."""
    history: list[dict[str, Version]] = [{}]
    for version, event in enumerate(events, start=1):
        state = dict(history[-1])
        if event == "delete":
            state.pop("x", None)
        elif event == "create" or "x" in state:
            uid = state["x"].uid if "x" in state else f"uid-{version}"
            state["x"] = Version(uid, str(version))
        history.append(state)
    return history


@given(EVENTS, st.data())
def test_a_living_watch_however_slow_is_never_suspected_twice(events: list[str], data: st.DataObject) -> None:
    """A cache that lags behind but advances between two looks is never called broken, however late it is."""
    history = history_of(events)
    last = len(history) - 1
    first_look = data.draw(st.integers(0, last))
    cache_then = data.draw(st.integers(0, last))
    second_look = data.draw(st.integers(first_look, last))
    cache_now = data.draw(st.integers(cache_then, last))
    before = differences(history[first_look], history[cache_then], str(first_look), reached=str(cache_then))
    now = differences(history[second_look], history[cache_now], str(second_look), reached=str(cache_now))
    # One coincidence looks like a lost event, and costs a relist: the cache has seen the object come and go between the
    # looks, and the second list is just old enough to show it still.
    came_and_went = "x" not in history[cache_then] and "x" not in history[cache_now]
    assert cache_now == cache_then or confirmed(before, now) <= ({"x"} if came_and_went else set())


@pytest.mark.parametrize(
    ("reached", "is_certain"),
    [(("3", "3"), True), (("3", "7"), False), (("3", "8"), True), (("3", "20"), True), (("a", "b"), True)],
    ids=["stands still", "is late", "has just passed it", "has passed it", "can't be compared"],
)
@pytest.mark.parametrize("change", ["changed", "new", "gone"])
def test_a_difference_is_certain_once_the_cache_stands_still_or_has_passed_it(
    change: str, reached: tuple[str, str], is_certain: bool
) -> None:
    live = {} if change == "gone" else {"x": Version("a", "8")}
    cached = {} if change == "new" else {"x": A1}
    before, now = differences(live, cached, "8", reached[0]), differences(live, cached, "30", reached[1])
    assert confirmed(before, now) == ({"x"} if is_certain else set())


@given(EVENTS, st.data())
def test_news_show_what_another_whole_list_would_show(events: list[str], data: st.DataObject) -> None:
    """As long as the cache doesn't go back, and shows at each look at least the server's state at the look before."""
    history = history_of(events)
    last = len(history) - 1
    looks = sorted(data.draw(st.lists(st.integers(0, last), min_size=2, max_size=5)))
    position = data.draw(st.integers(0, last))
    cache = Cache(history[position])
    collation = Collation(cache.get_all)
    listed(collation, history[looks[0]], cache.state, str(looks[0]))
    assert states(collation.differences("0").get("", {})) == shown(history[looks[0]], cache.state, str(looks[0]))
    for before, now in pairwise(looks):
        for version in range(before + 1, now + 1):
            old, new = history[version - 1].get("x"), history[version].get("x")
            if new is not None and new != old:
                collation.happened(identity("x", new), deleted=False)
            elif old is not None and new is None:
                collation.happened(identity("x", Version(old.uid, str(version))), deleted=True)
        position = data.draw(st.integers(max(position, before), last))
        cache.state = history[position]
        actual, expected = states(collation.differences("0").get("", {})), shown(history[now], cache.state, str(now))
        # A cache that is ahead has events that the server's list doesn't show yet: of no use as a difference.
        assert actual == expected or (position > now and not actual)
