"""An installation by an administrator of a namespace, who has no rights over the cluster, on a real API server."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack import gobuild
from hack.chart import CHART
from hack.controlplane import ControlPlane
from tests.support.chart import helm, run_chart_test
from tests.support.cluster import Cluster, tfjob
from tests.support.credentials import kubeconfig_of
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

WITHOUT_CLUSTER_RIGHTS: Json = {"crds": {"install": False}, "userRoles": False, "rbac": {"create": False}}


def test_an_administrator_of_a_namespace_installs_the_chart_once_the_rights_are_granted(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    kubectl, namespace = Kubectl(plane.kubeconfig, cluster.namespace), cluster.namespace
    kubectl("create", "serviceaccount", "team-admin")
    kubectl("create", "rolebinding", "team-admin", "--clusterrole=admin", f"--serviceaccount={namespace}:team-admin")
    admin = kubeconfig_of(
        plane, {"token": kubectl("create", "token", "team-admin").strip()}, tmp_path / "admin", namespace=namespace
    )
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"namespaces": [namespace], **WITHOUT_CLUSTER_RIGHTS}))

    # The administrator of the cluster grants the rights once: the file that the page names.
    granted = {"namespaces": [namespace]}
    (tmp_path / "rights.yaml").write_text(yaml.safe_dump(granted))
    rights = helm(
        plane.kubeconfig, "template", "tfoperator", str(CHART), "-n", namespace,
        "-f", str(tmp_path / "rights.yaml"), "--show-only", "templates/rbac.yaml",
    )  # fmt: skip
    (tmp_path / "granted.yaml").write_text(rights)
    assert {document["kind"] for document in yaml.safe_load_all(rights) if document} == {"Role", "RoleBinding"}
    kubectl("apply", "-f", str(tmp_path / "granted.yaml"))

    helm(admin, "install", "tfoperator", str(CHART), "-n", namespace, "-f", str(values))
    deployment = json.loads(kubectl("get", "deployment", "tfoperator", "-o", "json"))
    pod = deployment["spec"]["template"]["spec"]
    account = kubectl("create", "token", pod["serviceAccountName"]).strip()
    options = [
        argument for argument in pod["containers"][0]["args"] if not argument.startswith(("--health", "--metrics"))
    ]
    own = kubeconfig_of(plane, {"token": account}, tmp_path / "account", namespace=namespace)
    with OperatorProcess(own, tmp_path, "operator", *options) as operator:
        operator.wait_ready()
        # Without a right over CRDs, it still finds out what the API server serves.
        eventually(lambda: operator.metrics().get("tfoperator_crd_missing_fields") == 0, what="the CRD is compared")
        cluster.submit(tfjob("mnist", Worker=1))
        cluster.wait_condition("mnist", "Created", 60)
        tested = run_chart_test(own, namespace)
        assert tested.returncode == 0, tested.stderr
        assert tested.stdout.startswith("it leads: ")
    helm(admin, "upgrade", "tfoperator", str(CHART), "-n", namespace, "-f", str(values), "--set", "replicas=1")
    helm(admin, "uninstall", "tfoperator", "-n", namespace)
    assert cluster.job("mnist")["metadata"]["name"] == "mnist"


def test_without_the_values_the_chart_asks_for_rights_over_the_cluster(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    kubectl, namespace = Kubectl(plane.kubeconfig, cluster.namespace), cluster.namespace
    kubectl("create", "serviceaccount", "team-admin")
    kubectl("create", "rolebinding", "team-admin", "--clusterrole=admin", f"--serviceaccount={namespace}:team-admin")
    admin = kubeconfig_of(
        plane, {"token": kubectl("create", "token", "team-admin").strip()}, tmp_path / "admin", namespace=namespace
    )
    command = [gobuild.find("helm"), "install", "tfoperator", str(CHART), "-n", namespace, "--kubeconfig", str(admin)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 1
    assert "forbidden" in refused.stderr
