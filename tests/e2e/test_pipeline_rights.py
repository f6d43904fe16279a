"""A runner in a cluster with exactly the rights of its manifest: they suffice, and each of them is used."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack import gobuild
from hack.controlplane import ControlPlane, control_plane
from tests.support.audit import AuditTrail, Right, granted, roles_of, wait_allowed
from tests.support.cli import Cli
from tests.support.cluster import Cluster, decode
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.launching import Background, PodPlayer, in_background, step
from tests.support.threads import no_threads_left
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.launcher import (
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchCancelled,
    PendingLimits,
    PermanentFailure,
    TFJobComponentLauncher,
    TFJobPlatformConfig,
)

pytestmark = pytest.mark.controlplane

MANIFEST = Path(__file__).parents[2] / "examples/pipeline/runner.yaml"
ARGO_RIGHTS = MANIFEST.with_name("argo.yaml")
USER = "system:serviceaccount:default:pipeline-runner"
AUDIT = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
AT_ONCE = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    groups = "system:serviceaccounts,system:serviceaccounts:default,system:authenticated"
    with control_plane(users={USER: groups}, audit_policy=AUDIT) as running:
        yield running


@pytest.fixture
def start(plane: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., Background]]:
    config = load_config(str(plane.kubeconfig_for(USER)))
    with no_threads_left(), in_background(tmp_path) as begin:

        def launch(make: Any, name: str, config_of: Any, **options: Any) -> Background:
            options = {"work_dir": tmp_path / name, "namespace": "default", "kube": lambda: Client(config), **options}
            return begin(lambda context: make(step(name=name), config_of, context=context), **options)

        yield launch


def test_the_rights_of_the_manifest_suffice_and_each_of_them_is_used(
    plane: ControlPlane, start: Callable[..., Background]
) -> None:
    trail = AuditTrail(plane.audit_log, USER)
    with Client(load_config(str(plane.kubeconfig))) as admin:
        Cluster(admin).install_crd(crd())
        Kubectl(plane.kubeconfig)("apply", "-f", str(MANIFEST))
        wait_allowed(admin, USER, Right("", "pods", "create"), namespace="default")
        player = PodPlayer(admin, "default")

        pod = KubernetesPodPlatformConfig(AT_ONCE)
        launch = start(KubernetesPodComponentLauncher, "good", pod)
        name = player.the_pod(within=60)
        player.runs(name)
        eventually(lambda: any(right.resource == "pods/log" for right in trail.used()), within=60)
        player.ends(name)
        launch.done(60)
        player.is_gone(name, within=60)

        late = start(KubernetesPodComponentLauncher, "late", pod, pending=PendingLimits(schedule=0.5))
        with pytest.raises(PermanentFailure, match="has not been scheduled to a node"):
            late.done(60)

        job = start(TFJobComponentLauncher, "job", TFJobPlatformConfig({"Worker": 1}, pod_spec=AT_ONCE))
        eventually(lambda: admin.list(TFJOBS, "default", decode).items, within=60)
        job.launcher.cancel()
        with pytest.raises(LaunchCancelled):
            job.done(60)

        done = start(TFJobComponentLauncher, "done", TFJobPlatformConfig({"Worker": 1}, pod_spec=AT_ONCE))
        (made,) = eventually(lambda: list(admin.list(TFJOBS, "default", decode).items), within=60) or ()
        end = {"type": "Failed", "status": "True", "reason": "TFJobFailed", "message": "it was told to"}
        times = dict.fromkeys(("lastTransitionTime", "lastUpdateTime"), "2026-01-01T00:00:00Z")
        patch = {"status": {"conditions": [{**end, **times}]}}
        admin.patch(TFJOBS, "default", made["metadata"]["name"], patch, decode, subresource="status")
        with pytest.raises(PermanentFailure, match="it was told to"):
            done.done(60)

    rights = granted(roles_of(MANIFEST.read_text())["Role", "pipeline-runner"])

    trail.wait_used({right for right in rights if (right.resource, right.verb) not in CRASHES})
    assert trail.used() - rights == set()
    assert trail.refused() == []


CRASHES = {("pods", "get"), ("tfjobs", "get")}
"""Asked for only by who goes on after a crash."""


def test_the_manifest_runs_the_command_that_is_there() -> None:
    job = next(document for document in yaml.safe_load_all(MANIFEST.read_text()) if document["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][:3] == ["tfoperator", "pipeline", "run"]
    assert "--run-id=$(JOB_UID)" in container["args"]


def test_a_real_api_server_with_argos_crds_takes_what_is_compiled_and_argos_rights_are_those_of_the_example(
    plane: ControlPlane, tmp_path: Path
) -> None:
    argo = gobuild.module_folder("argo", gobuild.ARGO)
    digits = MANIFEST.with_name("digits.py")
    pods = ["--platform", "kubernetes", "--image", "example.com/p:1", "--param", "root=/data/r"]
    kubectl = Kubectl(plane.kubeconfig)
    with Client(load_config(str(plane.kubeconfig))) as admin:
        # Its full CRDs are for editors: API servers refuse them. The fields are checked by Argo's own strict reader.
        for kind, more in (("workflows", []), ("workflowtemplates", ["--template"])):
            definition = argo / f"manifests/base/crds/minimal/argoproj.io_{kind}.yaml"
            Cluster(admin).install_crd(yaml.safe_load(definition.read_text()))
            Cli(tmp_path).run("pipeline", "compile", str(digits), *pods, *more, "-o", f"{kind}.yaml", code=0)
            kubectl("create", "--validate=strict", "-f", str(tmp_path / f"{kind}.yaml"))
    (own,) = [document for document in yaml.safe_load_all(ARGO_RIGHTS.read_text()) if document["kind"] == "Role"]
    recommended = argo / "manifests/quick-start/base/executor/emissary/executor-role.yaml"
    assert own["rules"] == yaml.safe_load(recommended.read_text())["rules"]
