from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tests.unit.kube.conftest import Certificates
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials
from tfoperator.kube.config.loading import load_config, load_in_cluster_config
from tfoperator.kube.protocol.errors import ConfigError

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path, certificates: Certificates) -> Path:
    directory = tmp_path / "serviceaccount"
    write(directory / "token", "first\n")
    write(directory / "namespace", "training")
    write(directory / "ca.crt", certificates.ca.read_text())
    return directory


def test_the_given_file_goes_before_everything(tmp_path: Path, service_account: Path) -> None:
    given = write(tmp_path / "given", kubeconfig("https://given.test"))
    other = write(tmp_path / "other", kubeconfig("https://other.test"))
    write(tmp_path / ".kube" / "config", kubeconfig("https://home.test"))
    environ = {"KUBECONFIG": str(other), "HOME": str(tmp_path)} | IN_POD
    options = {"environ": environ, "service_account": service_account}
    assert load_config(str(given), **options).server == "https://given.test"
    assert load_config(**options).server == "https://other.test"
    del environ["KUBECONFIG"]
    assert load_config(**options).server == "https://home.test"
    (tmp_path / ".kube" / "config").unlink()
    assert load_config(**options).server == "https://10.96.0.1:443"


def test_several_files_are_merged_and_the_first_that_says_something_wins(tmp_path: Path) -> None:
    def content(current: str, server: str, **contexts: dict[str, str]) -> dict[str, Any]:
        return {
            "current-context": current,
            "clusters": [{"name": "shared", "cluster": {"server": server}}],
            "contexts": [
                {"name": name, "context": {"cluster": "shared", **context}} for name, context in contexts.items()
            ],
            "users": None,
        }

    first = write(tmp_path / "one", content("b", "https://one.test", a={"namespace": "first"}))
    others = {"a": {"namespace": "second"}, "b": {"user": "u", "namespace": "third"}}
    users = {"users": [{"name": "u", "user": {"token": "t"}}]}
    second = write(tmp_path / "two", content("a", "https://two.test", **others) | users)
    empty = write(tmp_path / "new", "")
    environ = {"KUBECONFIG": f"{empty}:{first}:{tmp_path}/missing::{second}"}
    current = load_config(environ=environ)
    assert (current.server, current.namespace) == ("https://one.test", "third")
    assert current.credentials.current().authorization == "Bearer t"
    assert load_config(context="a", environ=environ).namespace == "first"


def test_paths_are_relative_to_the_file_they_are_written_in(tmp_path: Path, certificates: Certificates) -> None:
    write(tmp_path / "users" / "secret" / "token", "relative")
    write(tmp_path / "users" / "config", {"users": [{"name": "u", "user": {"tokenFile": "secret/token"}}]})
    write(tmp_path / "clusters" / "ca.crt", certificates.ca.read_text())
    content = kubeconfig(cluster={"certificate-authority": "ca.crt"})
    del content["users"]
    write(tmp_path / "clusters" / "config", content)
    config = load_config(environ={"KUBECONFIG": f"{tmp_path}/clusters/config:{tmp_path}/users/config"})
    assert config.credentials.current().authorization == "Bearer relative"
    assert config.tls.ca == str(tmp_path / "clusters" / "ca.crt")


def test_a_missing_file_is_named_and_without_any_configuration_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/config does not exist.*check --kubeconfig"):
        load_config("/nowhere/config")
    with pytest.raises(ConfigError, match=r"KUBECONFIG is /nowhere/a:/nowhere/b, but no such file exists"):
        load_config(environ={"KUBECONFIG": "/nowhere/a:/nowhere/b"})
    with pytest.raises(ConfigError, match="no cluster is configured: set KUBECONFIG or --kubeconfig"):
        load_config(environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="context 'prod' needs a kubeconfig"):
        load_config(context="prod", environ={"HOME": str(tmp_path)} | IN_POD)


def test_a_pod_uses_its_service_account_and_notices_when_its_token_is_rotated(service_account: Path) -> None:
    clock = FakeClock()
    config = load_in_cluster_config(environ=IN_POD, service_account=service_account, clock=clock)
    assert (config.server, config.namespace) == ("https://10.96.0.1:443", "training")
    config.check()
    write(service_account / "token", "second")
    for seconds, token in ((59, "first"), (1, "second")):
        clock.advance(seconds)
        assert config.credentials.current().authorization == f"Bearer {token}"
    environ = IN_POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert load_in_cluster_config(environ=environ, service_account=service_account).server == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_an_incomplete_service_account_is_explained(service_account: Path, missing: str) -> None:
    (service_account / missing).unlink()
    with pytest.raises(ConfigError, match="is not false"):
        load_in_cluster_config(environ=IN_POD, service_account=service_account)


@pytest.mark.parametrize(
    "server", ["", "k8s.test:6443", "ftp://k8s.test", "https://", "https://k8s.test:port", "https://[::1", "/api"]
)
def test_a_server_must_be_a_url(server: str) -> None:
    with pytest.raises(ConfigError, match="server"):
        ClusterConfig(server=server)


def test_a_program_can_not_send_credentials_in_the_clear_either_and_no_secret_is_shown() -> None:
    assert ClusterConfig(server="http://k8s.test").credentials.current().authorization == ""
    secret = StaticCredentials("Bearer s3cret")
    with pytest.raises(
        ConfigError, match=r"only to an https:// server, but the server is http://k8s\.test"
    ) as in_the_clear:
        ClusterConfig(server="http://k8s.test", credentials=secret)
    with pytest.raises(ConfigError) as with_a_password:
        ClusterConfig(server="https://jane:s3cret@k8s.test")
    config = ClusterConfig(server="http://127.0.0.1:1", credentials=secret)
    with Client(config) as client:
        shown = f"{config!r} {config} {config.tls!r} {client!r} {config.credentials!r}"
    assert "s3cret" not in f"{shown} {in_the_clear.value} {with_a_password.value}"
