"""Whatever goes wrong on the way to a cluster: one clear line, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run, Tell
from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.local.apiserver.server import EmbeddedApiServer

COMMANDS = (
    *([command, "mnist"] for command in ("describe", "logs", "events", "wait", "suspend", "delete")),
    ["get"],
    ["scale", "mnist", "--workers", "1"],
)


def told(run: Run, arguments: list[str], kubeconfig: Path) -> list[str]:
    said = run(*arguments, "--kubeconfig", str(kubeconfig), code=1)
    assert said.out == ""
    return said.err.splitlines()


@pytest.fixture
def down(tmp_path: Path) -> Path:
    server = EmbeddedApiServer()
    server.stop()
    return write(tmp_path / "kubeconfig", server.kubeconfig())


@pytest.fixture
def without_crd(tmp_path: Path) -> Iterator[Path]:
    with EmbeddedApiServer(custom_resources=()) as server:
        yield write(tmp_path / "kubeconfig", server.kubeconfig())


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_server_that_is_down(down: Path, arguments: list[str], run: Run) -> None:
    what, hint = told(run, arguments, down)
    assert "127.0.0.1" in what
    assert "Is the API server up?" in hint


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_cluster_without_the_crd(without_crd: Path, arguments: list[str], run: Run) -> None:
    what, hint = told(run, arguments, without_crd)
    assert "the CustomResourceDefinition tfjobs.kubeflow.org is missing" in what
    assert hint == "Install it with: tfoperator crd | kubectl apply --server-side -f -"


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_missing_rights(tmp_path: Path, arguments: list[str], run: Run) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.status(403, "Forbidden", 'tfjobs.kubeflow.org is forbidden: User "me" cannot do that')

    with ScriptedServer(refuse) as server:
        what, hint = told(run, arguments, write(tmp_path / "kubeconfig", kubeconfig(server.url)))
    assert 'User "me" cannot do that' in what
    assert "Ask whoever runs the cluster" in hint


def test_an_unknown_context(tell: Tell) -> None:
    said = tell("get", "--context", "nope", code=2)
    assert "'nope', which does not exist: known contexts: tfoperator-local" in said.err


def test_no_configuration_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "no cluster is configured" in run("get", code=2).err
