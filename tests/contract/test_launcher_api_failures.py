"""A launcher of pods whose API server fails, refuses, or loses answers."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.launches import Start, player, start
from tests.contract.support import Space
from tests.support.eventually import eventually
from tests.support.launching import QUICK, PodPlayer
from tests.support.scripted_proxy import Rule, ScriptedProxy
from tfoperator.kube import Client, ForbiddenError
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import TokenFile
from tfoperator.kube.config.loading import load_config
from tfoperator.launcher import PlatformUnavailable

__all__ = ["player", "start"]


@pytest.fixture
def proxy(space: Space) -> Iterator[ScriptedProxy]:
    config = load_config(str(space.kubeconfig))
    with ScriptedProxy(config.server, config.tls.ca) as started:
        yield started


def through(proxy: ScriptedProxy, space: Space, **more: Any) -> Callable[[], Client]:
    credentials = more.get("credentials") or load_config(str(space.kubeconfig)).credentials
    return lambda: Client(ClusterConfig(server=proxy.url, credentials=credentials))


def test_a_create_whose_answer_is_lost_makes_one_pod(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", lose=True))
    launch = start(kube=through(proxy, space))
    name = player.the_pod()
    eventually(lambda: proxy.count("POST .*/pods") == 2)
    player.ends(name)
    assert launch.done().attempts == 1


def test_a_create_is_repeated_over_429_500_503_and_409(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    refusals = ((429, {}), (500, {}), (503, {}), (409, {}), (429, {"Retry-After": "1"}))
    proxy.script(*[Rule("POST .*/pods", code=code, headers=headers) for code, headers in refusals])
    launch = start(kube=through(proxy, space), api_retry=type(QUICK)(attempts=8, initial=0.01, maximum=0.05))
    player.ends(player.the_pod())
    assert launch.done().attempts == 1
    assert proxy.count("POST .*/pods") == 6


def test_clearing_up_is_tried_again_and_never_changes_the_outcome(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space, tmp_path: Path
) -> None:
    proxy.script(Rule("DELETE .*/pods", code=500), Rule("DELETE .*/pods", code=429))
    launch = start(kube=through(proxy, space))
    name = player.the_pod()
    player.ends(name)
    assert launch.done().attempts == 1
    assert proxy.count("DELETE .*/pods") == 3
    player.is_gone(name)

    proxy.script(Rule("DELETE .*/pods", code=403))
    launch = start(kube=through(proxy, space), work_dir=tmp_path / "other")
    name = player.the_pod()
    player.ends(name)
    assert launch.done().attempts == 1
    assert list(player.pods()) == [name]


def test_an_api_that_fails_for_too_long_is_retryable_and_taken_up_later(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", code=500, times=3))
    launch = start(kube=through(proxy, space))
    with pytest.raises(PlatformUnavailable):
        launch.done()
    assert player.pods() == {}
    again = start(kube=through(proxy, space))
    player.ends(player.the_pod())
    assert again.done().attempts == 1


def test_a_refusal_is_told_at_once_and_nothing_is_recorded_against_the_component(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", code=403, reason="Forbidden"))
    with pytest.raises(ForbiddenError):
        start(kube=through(proxy, space)).done()
    again = start()
    player.ends(player.the_pod())
    assert again.done().attempts == 1


def test_watches_that_fail_and_tokens_that_expire_do_no_harm(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    good = load_config(str(space.kubeconfig)).credentials.current().authorization
    token.write_text("old")
    # It is renewed just after it was used, and before the second try, which comes soon.
    renewal = partial(token.write_text, good.removeprefix("Bearer "))
    proxy.script(
        Rule("POST .*/pods", code=401, authorization="Bearer old", times=99, first=renewal),
        Rule("GET .*/pods.*watch=true", code=500),
        Rule("GET .*/pods.*watch=true", code=401),
        Rule("GET .*/pods.*watch=true", code=410),
        Rule("GET .*/pods.*watch=true", cut_after=10),
    )
    launch = start(kube=through(proxy, space, credentials=TokenFile(token)))
    name = player.the_pod()
    assert proxy.count("POST .*/pods") == 2
    eventually(lambda: proxy.count("watch=true") >= 4)
    player.runs(name)  # its event is cut off
    eventually(lambda: proxy.count("watch=true") >= 5)
    player.ends(name)
    assert launch.done().attempts == 1
