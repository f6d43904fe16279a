"""Failures on the way to a cluster, of any kind: one clear line, and what to do next."""

import re
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


def refuse(exchange: Exchange) -> None:
    exchange.status(403, "Forbidden", 'tfjobs.kubeflow.org is forbidden: User "me" cannot do that')


def reject(exchange: Exchange) -> None:
    exchange.status(401, "Unauthorized", "Unauthorized")


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Kubeconfigs of clusters that are of no use."""
    down = EmbeddedApiServer()
    down.stop()
    with EmbeddedApiServer(custom_resources=()) as plain, ScriptedServer(refuse) as refusing:
        configs = {"down": down.kubeconfig(), "no crd": plain.kubeconfig(), "no rights": kubeconfig(refusing.url)}
        yield {name: write(tmp_path / name, config) for name, config in configs.items()}


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_server_that_is_down_a_cluster_without_the_crd_and_missing_rights(
    clusters: dict[str, Path], arguments: list[str], run: Run
) -> None:
    install = r"Install .*: tfoperator crd \| kubectl apply --server-side -f -"
    for cluster, words, advice in (
        ("down", "127.0.0.1", r".*Is the API server running\?.*"),
        ("no crd", "tfjobs.kubeflow.org is missing", install),
        ("no rights", 'User "me" cannot do that', r".*Ask the administrators of the cluster.*"),
    ):
        result = run(*arguments, "--kubeconfig", str(clusters[cluster]), code=1)
        what, hint = result.err.splitlines()
        assert (result.out, words in what) == ("", True), what
        assert re.fullmatch(advice, hint)


def test_after_wrong_credentials_the_hint_is_about_the_credentials_and_not_about_a_right(
    tmp_path: Path, run: Run
) -> None:
    with ScriptedServer(reject) as server:
        config = write(tmp_path / "config", kubeconfig(server.url))
        result = run("get", "--kubeconfig", str(config), code=1)
    assert "Renew the credentials of your user in the kubeconfig" in result.err
    assert "permission" not in result.err


def test_an_unknown_context_or_no_configuration_at_all(
    tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    result = tell("get", "--context", "nope", code=2)
    assert "'nope', which does not exist: known contexts: tfoperator-local" in result.err
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "no cluster is configured" in run("get", code=2).err
    assert "To list the runs of this folder: tfoperator runs" in run("report", "20260101-120000-mistyped", code=2).err


def test_a_command_without_a_cluster_names_the_run_that_is_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    way = Path(".tfoperator", "runs", "latest", "kubeconfig")
    assert str(way) not in run("get", code=2).err
    way.parent.mkdir(parents=True)
    way.touch()
    assert f"A run of this folder is in progress. For its jobs, add: --kubeconfig {way}" in run("get", code=2).err
