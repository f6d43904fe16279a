"""Ten pipelines that `kfp` and `kfp-kubernetes` have compiled, on pods of a node with a real kubelet."""

from pathlib import Path

import pytest

from tests.support.eventually import eventually_holds
from tests.support.in_cluster import LIMIT, SHELL_IMAGE, InCluster, volume_of
from tests.support.kfp_kubernetes import ENDS, OBJECTS, TOO_LONG, compile_all, run
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

CLAIM = "kfp-claim"


def test_each_option_of_kfp_kubernetes_reaches_its_pod(
    namespace: InCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compile_all(tmp_path, SHELL_IMAGE)
    claim = {
        "metadata": {"namespace": namespace.namespace, "name": CLAIM},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    (tmp_path / "volume").mkdir()
    volume = volume_of(claim, tmp_path / "volume")
    namespace.apply(*OBJECTS, volume)

    def kube() -> Client:
        return Client(load_config(str(namespace.cluster.kubeconfig)))

    place = {"kube": kube, "namespace": namespace.namespace}
    for name, lines in ENDS.items():
        parameters = {"volume": volume["metadata"]["name"]} if name == "claims" else {}
        result, listener = run(tmp_path, name, parameters=parameters, **place)
        assert result.state == "succeeded", (name, result.message)
        assert sorted(listener.lines) == sorted(lines), name
    result, _ = run(tmp_path, TOO_LONG, **place)
    assert result.state == "failed"
    assert "longer than the specified deadline" in result.message

    def left() -> None:
        # A deleted claim keeps the finalizer of a controller that may not run here.
        claims = [
            claim for claim in namespace.list("persistentvolumeclaims") if "deletionTimestamp" not in claim["metadata"]
        ]
        assert (namespace.list("pods"), claims) == ([], [])

    eventually_holds(left, within=LIMIT, every=0.5, what="the pods and the claim of the pipelines are gone")
    assert (tmp_path / "volume/part/text").read_text() == "kept\n"  # which the claim's volume keeps
