"""Ten pipelines that `kfp` and `kfp-kubernetes` have compiled: pods of the embedded control plane, and processes."""

from pathlib import Path

import pytest

from tests.support.cli import Cli
from tests.support.cluster import decode
from tests.support.kfp_kubernetes import ENDS, OBJECTS, TOO_LONG, compile_all, objects_file, run
from tests.support.local_cluster import cli, cluster
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from tfoperator.launcher import ComponentError
from tfoperator.local.manifest_resources import apply
from tfoperator.local.runtime.process.mounts.mounted_command import mounted_command
from tfoperator.pipeline import AS_PROCESSES
from tfoperator.pipeline.kfp.machine_options import read_objects

__all__ = ["cli", "cluster"]
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled")
    compile_all(folder, "busybox:1.36")
    return folder


IDENTITY = "image"
"""The pipeline that chooses a user: a process is the user who started it."""


def test_all_run_on_pods_of_the_embedded_control_plane(
    compiled: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Client(load_config(cli.environment["KUBECONFIG"])) as client:
        apply(client, OBJECTS, "default")

        def kube() -> Client:
            return Client(load_config(cli.environment["KUBECONFIG"]))

        for name, lines in ENDS.items():
            result, listener = run(compiled, name, kube=kube)
            assert result.state == "succeeded", (name, result.message)
            if name != IDENTITY:
                assert sorted(listener.lines) == sorted(lines), name
        result, _ = run(compiled, TOO_LONG, kube=kube)
        assert result.state == "failed"
        assert "longer than the specified deadline" in result.message
        assert client.list(PODS, "default", decode).items == ()
        assert client.list(PERSISTENT_VOLUME_CLAIMS, "default", decode).items == ()


def test_all_run_as_processes_whose_secrets_come_from_the_users_manifest(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = read_objects([str(objects_file(tmp_path))])
    for name, lines in ENDS.items():
        result, listener = run(compiled, name, AS_PROCESSES, "process", objects=given, mount=mounted_command)
        assert result.state == "succeeded", (name, result.message)
        if name != IDENTITY:
            assert sorted(listener.lines) == sorted(lines), name
    _, listener = run(compiled, "placement", AS_PROCESSES, "process", objects=given, mount=mounted_command)
    ignored = [message for message in listener.messages if "has no effect" in message]
    assert ignored == [
        f"{option} has no effect on this machine: say" for option in ("nodeAffinity", "nodeSelector", "tolerations")
    ]
    assert not (tmp_path / ".tfoperator/claims/kfp-claim").exists()
    with pytest.raises(
        ComponentError,
        match="Secret other is missing on this machine: add --manifest FILE, a file that contains this Secret",
    ):
        run(compiled, "secret-env", AS_PROCESSES, "process", parameters={"secret": "other"}, objects=given)
    command = ("pipeline", "run", str(compiled / "secret-env.yaml"), "--containers", "process")
    assert "me/pw/fast" in Cli(tmp_path).run(*command, "--manifest", "objects.yaml", code=0).stdout
    shown = Cli(tmp_path).run(*command, "--manifest", "objects.yaml", "--dry-run", code=0).stdout
    assert "PASSWORD: (key password of Secret login)" in shown
    late, _ = run(compiled, "named-by-a-task", AS_PROCESSES, "process", mount=mounted_command)
    assert "Secret login is missing on this machine" in late.message
    assert str(late.steps["say"].state) == "failed"
    assert [path for path in compiled.rglob("mounts") if path.is_dir()] == []
