"""The requests of a look at the server: whole lists, and what has happened since."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import namespaced
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, FakeWatch, api_error
from tests.support.threads import InThread
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.informers import Lister
from tfoperator.informers.store import Indexer
from tfoperator.kube.protocol.errors import KubeError, TransportError
from tfoperator.kube.protocol.options import ListOptions, WatchOptions
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import WatchEvent
from tfoperator.kube.views.objects import decode_pod
from tfoperator.reconciler.live import Looker

OURS = {"training.kubeflow.org/operator-name": "tfjob-controller"}


def group_of(cache: Indexer[Any]) -> Any:
    """A cache as a group of informers shows it, which has not listed anything itself."""
    return SimpleNamespace(lister=Lister(cache), versions=[], version_of=lambda namespace: "")


class Looking:
    """A looker on jobs and pods, and caches that change only when a test changes them."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.clock = FakeClock()
        self.jobs, self.pods = Indexer[Any](), Indexer[Any]()
        self.looker = self.make_looker()

    def make_looker(self, *namespaces: str, news_above: int = 0) -> Looker:
        return Looker(self.api, namespaces or ("",), whole_every=270, clock=self.clock, news_above=news_above)

    def put_pod(self, name: str, namespace: str = "ns", **labels: str) -> None:
        self.api.put(PODS, {"metadata": {"name": name, "namespace": namespace, "labels": labels or OURS}})

    def fill(self) -> None:
        """Have the caches show what there is."""
        self.jobs.replace(self.api.list(TFJOBS, "", decode_tfjob).items)
        self.pods.replace(self.api.list(PODS, "ns", decode_pod, ListOptions(label_selector=_SELECTOR)).items)
        self.api.calls.clear()

    def look(self) -> dict[str, set[str]]:
        """The keys that look different, by resource."""
        groups = [group_of(self.jobs), group_of(self.pods)]
        look = self.looker.look(groups[0], {PODS: groups[1]})
        pods = {key for keys in look.owned["pods"].values() for key in keys}
        return {kind: keys for kind, keys in (("tfjobs", set(look.jobs)), ("pods", pods)) if keys}

    def asked(self) -> list[tuple[str, str]]:
        """The requests since the last time."""
        calls = [(call.verb, call.resource) for call in self.api.calls]
        self.api.calls.clear()
        return calls


_SELECTOR = ",".join(f"{key}={value}" for key, value in OURS.items())
WHOLE = [("list", "tfjobs"), ("list", "pods")]
NEWS = [("news", "tfjobs"), ("news", "pods")]


@pytest.fixture
def looking() -> Looking:
    setup = Looking()
    setup.api.put(TFJOBS, namespaced(tfjob("job", Worker=1)))
    setup.put_pod("a")
    setup.put_pod("b")
    setup.fill()
    return setup


def test_a_collection_of_a_page_is_listed_each_time(looking: Looking) -> None:
    looking.looker = looking.make_looker(news_above=1)
    looking.look()
    looking.asked()
    looking.put_pod("c")
    assert looking.look() == {"pods": {"ns/c"}}
    assert looking.asked() == [("news", "pods"), ("list", "tfjobs")], "there is one job, and there are two pods"


def test_after_a_whole_look_only_news_are_asked_for_those_of_several_namespaces_together(looking: Looking) -> None:
    looking.put_pod("a", "other")
    looking.api.put(TFJOBS, tfjob("x", Worker=1) | {"metadata": {"name": "x", "namespace": "other"}})
    looking.looker = looking.make_looker("ns", "other")
    looking.asked()
    assert looking.look() == {"pods": {"other/a"}, "tfjobs": {"other/x"}}
    assert looking.asked() == WHOLE * 2
    looking.api.remove(PODS, "ns", "a")
    for _ in range(3):
        assert looking.look() == {"pods": {"other/a", "ns/a"}, "tfjobs": {"other/x"}}
        assert looking.asked() == NEWS * 2


def test_news_of_every_kind_that_the_cache_lacks_are_differences(looking: Looking) -> None:
    looking.put_pod("leaves")
    looking.fill()
    looking.look()
    looking.put_pod("new")
    looking.api.edit(PODS, "ns", "a", {"metadata": {"annotations": {"x": "y"}}})
    looking.api.remove(PODS, "ns", "b")
    looking.api.remove(PODS, "ns", "leaves")
    looking.put_pod("leaves", foreign="yes")  # the selection
    looking.api.put(TFJOBS, namespaced(tfjob("other", Worker=1)))
    expected = {"pods": {"ns/new", "ns/a", "ns/b", "ns/leaves"}, "tfjobs": {"ns/other"}}
    assert looking.look() == expected
    assert looking.look() == expected, "they stay different although the server tells of them once"
    looking.fill()
    assert looking.look() == {}
    assert looking.asked() == NEWS


def test_what_the_cache_lost_is_found_by_the_next_whole_look_which_follows_a_failed_one(looking: Looking) -> None:
    looking.look()
    looking.pods.delete("ns/a")
    assert looking.look() == {}
    looking.clock.advance(270)
    looking.asked()
    assert looking.look() == {"pods": {"ns/a"}}
    assert looking.asked() == WHOLE
    looking.clock.advance(270)
    looking.api.fail("list", "pods", api_error(503))
    with pytest.raises(KubeError):
        looking.look()
    looking.asked()
    looking.pods.delete("ns/b")
    assert looking.look() == {"pods": {"ns/a", "ns/b"}}
    assert looking.asked() == [("news", "tfjobs"), ("list", "pods")]


@pytest.mark.parametrize(
    "error",
    [
        api_error(410, "Expired", "too old resource version"),
        api_error(403, "Forbidden", "no watch"),
        TransportError("the connection broke"),
    ],
)
def test_where_no_news_are_to_be_had_the_look_is_whole(looking: Looking, error: KubeError) -> None:
    looking.look()
    looking.asked()
    looking.api.fail("news", "pods", error)
    looking.api.remove(PODS, "ns", "a")
    assert looking.look() == {"pods": {"ns/a"}}
    assert looking.asked() == [*NEWS, ("list", "pods")]
    assert looking.look() == {"pods": {"ns/a"}}
    assert looking.asked() == NEWS


def test_a_watch_that_lasts_its_time_needs_no_bookmark(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server sends none for a version that the watch has reached."""
    asked: list[str] = []

    class Watch(FakeWatch):
        def __iter__(self) -> Iterator[WatchEvent[Any]]:
            yield from super().__iter__()
            looking.clock.advance(3)

    def quiet(resource: Any, namespace: str, decode: Any, options: WatchOptions) -> FakeWatch:
        looking.api.calls.append(Call("news", resource.plural))
        watch = Watch(decode)
        if resource == PODS:
            asked.append(options.resource_version)
            watch.push("DELETED", {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1000"}})
        watch.end()
        return watch

    looking.look()
    looking.asked()
    monkeypatch.setattr(looking.api, "watch", quiet)
    for _ in range(5):
        assert looking.look() == {"pods": {"ns/a"}}
    assert looking.asked() == 5 * NEWS
    assert asked[1:] == ["1000"] * 4, "it goes on from the last event"


def test_a_server_that_ends_watches_is_not_asked_for_ever(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(resource: Any, namespace: str, decode: Any, options: WatchOptions) -> FakeWatch:
        looking.api.calls.append(Call("news", resource.plural))
        watch = FakeWatch(decode)
        watch.end()
        return watch

    monkeypatch.setattr(looking.api, "watch", silent)
    looking.look()
    for _ in range(5):
        looking.look()
    assert looking.asked() == WHOLE + 3 * (NEWS + WHOLE) + 2 * WHOLE
    # It may have been rolled out meanwhile. The first look is whole because the last whole look is long ago.
    monkeypatch.undo()
    looking.clock.advance(3600)
    looking.look()
    looking.look()
    assert looking.asked() == WHOLE + NEWS


def test_closing_ends_a_look_that_waits_and_none_follows(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    looking.look()
    opened: list[FakeWatch] = []

    def endless(resource: Any, namespace: str, decode: Any, options: WatchOptions) -> FakeWatch:
        opened.append(FakeWatch(decode))
        return opened[-1]

    monkeypatch.setattr(looking.api, "watch", endless)
    group = group_of(looking.jobs)
    waiting = InThread(lambda: looking.looker.look(group, {}))
    eventually(lambda: len(opened) == 1, what="it waits for news")
    looking.looker.close()
    assert waiting.result(30) is None
    assert looking.looker.look(group, {}) is None


def test_a_collection_with_differences_is_named_until_it_is_read_again(looking: Looking) -> None:
    looking.look()
    assert looking.looker.differing == set()
    looking.put_pod("c")
    looking.look()
    assert looking.looker.differing == {PODS}
    looking.fill()
    looking.looker.look(group_of(looking.jobs), {})
    assert looking.looker.differing == {PODS}, "the look was only at jobs"
    looking.look()
    assert looking.looker.differing == set()


def test_a_namespace_that_may_not_be_read_has_no_differences_and_is_then_read_anew(looking: Looking) -> None:
    looking.looker = looking.make_looker("ns", "other", news_above=-1)
    looking.look()
    looking.put_pod("c")
    looking.look()
    assert looking.looker.differing == {PODS}
    looking.asked()

    def deny(call: Call) -> None:
        if call.namespace == "ns":
            raise api_error(403, "Forbidden", "its role is gone")

    looking.api.react(deny)
    looking.look()
    assert looking.looker.differing == set()
    looking.api.behave()
    looking.asked()
    assert looking.look() == {"pods": {"ns/c"}}
    assert sorted(looking.asked()) == sorted(WHOLE + NEWS)
