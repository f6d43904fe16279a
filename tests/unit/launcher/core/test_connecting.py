from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tfoperator.kube import ConfigError
from tfoperator.launcher.container.launcher import pinned_digest
from tfoperator.launcher.core.connecting import find_cluster


@pytest.fixture
def account(tmp_path: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    for name, text in (("token", "t"), ("ca.crt", "x"), ("namespace", "jobs")):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    contexts = [{"name": n, "context": {"cluster": n, "user": "u"}} for n in ("one", "two")]
    clusters = [{"name": n, "cluster": {"server": f"http://{n}"}} for n in ("one", "two")]
    document = {"contexts": contexts, "clusters": clusters, "users": [{"name": "u", "user": {}}]}
    path.write_text(yaml.safe_dump({**document, "current-context": "one"}))
    return path


def test_a_pod_talks_to_its_own_cluster_unless_another_is_named(account: Path, kubeconfig: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBECONFIG": str(kubeconfig)}

    assert find_cluster(environ=environ, service_account=account).server == "https://10.0.0.1:443"
    assert find_cluster(context="two", environ=environ, service_account=account).server == "http://two"
    assert find_cluster(str(kubeconfig), environ=environ, service_account=account).server == "http://one"


def test_elsewhere_it_is_the_current_context_of_the_kubeconfig(tmp_path: Path, kubeconfig: Path) -> None:
    found = find_cluster(environ={"KUBECONFIG": str(kubeconfig)}, service_account=tmp_path / "none")
    assert found.server == "http://one"
    with pytest.raises(ConfigError):
        find_cluster(environ={"HOME": str(tmp_path)}, service_account=tmp_path / "none")


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        ("busybox", ""),
        ("busybox:latest", ""),
        ("host:5000/a/b:1", ""),
        ("busybox@sha256:" + "a" * 64, "sha256:" + "a" * 64),
        ("busybox:1@sha256:" + "0" * 64, "sha256:" + "0" * 64),
        ("sha256:" + "0" * 64, "sha256:" + "0" * 64),
        ("busybox@sha256:" + "a" * 63, ""),
        ("busybox@sha256:" + "a" * 65, ""),
    ],
)
def test_only_a_digest_means_the_same_image_for_ever(image: str, digest: str) -> None:
    assert pinned_digest(image) == digest
