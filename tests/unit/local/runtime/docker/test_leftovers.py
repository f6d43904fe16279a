"""The things that are removed at the end of a run, and their order."""

import logging
from http import HTTPStatus
from typing import Any

import pytest
import requests
from docker.errors import APIError, NotFound

from tfoperator.local.runtime.docker.leftovers import remove_run


def refusal(status: HTTPStatus, message: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return (NotFound if status == HTTPStatus.NOT_FOUND else APIError)(message, response, message)


class Engine:
    """A sandbox and a container in a network; somebody else may be removing them already."""

    def __init__(self) -> None:
        self.alive = {"sandbox": "net", "worker": "container:sandbox"}
        self.being_removed: set[str] = set()
        self.never_gone: set[str] = set()
        self.network = True
        self.calls: list[str] = []

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [
            {"Id": name, "Names": [f"/{name}"], "HostConfig": {"NetworkMode": mode}}
            for name, mode in self.alive.items()
        ]

    def remove_container(self, name: str, **_: Any) -> None:
        self.calls.append(f"remove {name}")
        if name not in self.alive:
            raise refusal(HTTPStatus.NOT_FOUND, "No such container")
        if name in self.being_removed:
            raise refusal(HTTPStatus.CONFLICT, f"removal of container {name} is already in progress")
        del self.alive[name]

    def wait(self, name: str, timeout: float, condition: str) -> None:
        assert condition == "removed"
        self.calls.append(f"wait for {name}")
        if name in self.never_gone:
            raise requests.ReadTimeout(f"read timed out after {timeout}")
        if self.alive.pop(name, None) is None:
            raise refusal(HTTPStatus.NOT_FOUND, "No such container")

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": "net"}] if self.network else []

    def remove_network(self, name: str) -> None:
        self.calls.append(f"remove {name}")
        if self.alive:
            raise refusal(HTTPStatus.FORBIDDEN, "network has active endpoints")
        self.network = False


@pytest.mark.parametrize(
    ("being_removed", "removed", "waits"),
    [(set(), ["worker", "sandbox"], []), ({"sandbox"}, ["worker"], ["wait for sandbox"])],
)
def test_the_sandbox_goes_after_what_borrows_its_network_and_before_that_network(
    being_removed: set[str], removed: list[str], waits: list[str]
) -> None:
    engine = Engine()
    engine.being_removed = being_removed
    assert remove_run(engine, "run") == removed
    assert engine.calls == ["remove worker", "remove sandbox", *waits, "remove net"]
    assert not engine.network


def test_what_does_not_go_is_said_and_waited_for_no_longer_and_what_is_gone_meanwhile_is_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine()
    listed = engine.containers()
    engine.containers = lambda **_: listed  # type: ignore[method-assign]
    engine.alive.clear()
    with caplog.at_level(logging.WARNING):
        assert remove_run(engine, "run") == []
    assert (engine.network, caplog.text) == (False, "")
    engine = Engine()
    engine.being_removed = engine.never_gone = {"sandbox"}
    with caplog.at_level(logging.WARNING):
        assert remove_run(engine, "run") == ["worker"]
    assert "the container sandbox could not be removed from Docker: read timed out" in caplog.text
    assert engine.network
