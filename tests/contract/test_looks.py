"""The reconciler's look at the live state: the events of a short watch, on both servers."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract.support import PODS, TFJOBS, Space, pod, tfjob
from tfoperator.api.replicas.names import LABEL_OPERATOR_NAME, OPERATOR_NAME
from tfoperator.base.clock import SystemClock
from tfoperator.informers import Lister
from tfoperator.informers.store import Indexer
from tfoperator.reconciler.live import Looker

OURS = {"metadata": {"labels": {LABEL_OPERATOR_NAME: OPERATOR_NAME}}}


def test_a_look_is_told_what_has_happened_since_the_last_one(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[str] = []
    ask = space.client.list

    def listed(resource: Any, *arguments: Any, **options: Any) -> Any:
        lists.append(resource.plural)
        return ask(resource, *arguments, **options)

    monkeypatch.setattr(space.client, "list", listed)
    looker = Looker(space.client, [space.namespace], whole_every=3600, clock=SystemClock(), news_above=-1)
    empty: list[Any] = [
        SimpleNamespace(lister=Lister(Indexer[Any]()), versions=(), version_of=lambda namespace: "") for _ in range(2)
    ]

    def look() -> tuple[set[str], set[str]]:
        view = looker.look(empty[0], {PODS: empty[1]})
        assert view is not None
        pods = {key for keys in view.owned["pods"].values() for key in keys}
        return {key.split("/")[1] for key in view.jobs}, {key.split("/")[1] for key in pods}

    for name in ("a", "foreign"):
        space.create(PODS, pod(name))
    space.patch(PODS, "a", OURS)
    assert look() == (set(), {"a"})
    assert lists == ["tfjobs", "pods"]
    space.create(TFJOBS, tfjob("job"))
    space.create(PODS, pod("b"))
    space.patch(PODS, "b", OURS)
    space.patch(PODS, "a", {"metadata": {"labels": {LABEL_OPERATOR_NAME: None}}})
    assert look() == ({"job"}, {"b"})
    space.delete(PODS, "b", grace_period_seconds=0)
    space.delete(TFJOBS, "job")
    assert look() == (set(), set())
    assert lists == ["tfjobs", "pods"], "there was no need for another list"
