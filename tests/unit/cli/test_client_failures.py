"""Whatever goes wrong on the way to a cluster: one clear line, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Tell
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.cli.__main__ import main
from tfoperator.local.apiserver import EmbeddedApiServer

COMMANDS = (
    ["get"],
    ["describe", "mnist"],
    ["logs", "mnist"],
    ["events", "mnist"],
    ["wait", "mnist"],
    ["suspend", "mnist"],
    ["scale", "mnist", "--workers", "1"],
    ["delete", "mnist"],
)


def told(capsys: pytest.CaptureFixture[str], arguments: list[str], kubeconfig: Path) -> tuple[int, list[str]]:
    code = main([*arguments, "--kubeconfig", str(kubeconfig)])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()


@pytest.fixture
def down(tmp_path: Path) -> Path:
    server = EmbeddedApiServer()
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    server.stop()
    return path


@pytest.fixture
def without_crd(tmp_path: Path) -> Iterator[Path]:
    with EmbeddedApiServer(custom_resources=()) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(server.kubeconfig()))
        yield path


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_server_that_is_down(down: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, (what, hint) = told(capsys, arguments, down)
    assert code == 1
    assert "127.0.0.1" in what
    assert "Is the API server up?" in hint


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_cluster_without_the_crd(without_crd: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, (what, hint) = told(capsys, arguments, without_crd)
    assert code == 1
    assert "the CustomResourceDefinition tfjobs.kubeflow.org is missing" in what
    assert hint == "Install it with: tfoperator crd | kubectl apply --server-side -f -"


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_missing_rights(tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.status(403, "Forbidden", 'tfjobs.kubeflow.org is forbidden: User "me" cannot do that')

    with ScriptedServer(refuse) as server:
        path = tmp_path / "kubeconfig"
        context = {"cluster": "c", "user": "u"}
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": context}],
                    "current-context": "x",
                }
            )
        )
        code, (what, hint) = told(capsys, arguments, path)
    assert code == 1
    assert 'User "me" cannot do that' in what
    assert "Ask whoever runs the cluster" in hint


def test_an_unknown_context(tell: Tell) -> None:
    said = tell("get", "--context", "nope")
    assert said.code == 2
    assert "'nope', which does not exist: known contexts: tfoperator-local" in said.err


def test_no_configuration_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["get"]) == 2
    assert "no cluster is configured" in capsys.readouterr().err
