"""The rights that overlays and components add to the base: they suffice, and each right is used.

The API server has no streaming lists, as those before Kubernetes 1.34 have none: there the operator lists before it
watches, and it is the same operator with the same rights.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from hack.chart import MANIFESTS, roles
from hack.controlplane import ControlPlane, control_plane
from tests.e2e.conftest import AUDIT_POLICY, OPERATOR_GROUPS, OPERATOR_USER
from tests.support.audit import SCHEMA, VERSION, AuditTrail, Right, granted, roles_of, wait_allowed
from tests.support.cluster import Cluster, decode, find, tfjob
from tests.support.eventually import eventually
from tests.support.gang_schedulers import install_coscheduling_crds, install_volcano_crds
from tests.support.kubectl import Kubectl, write_overlay
from tests.support.operated import Operated
from tests.support.operator_process import OperatorProcess, free_port
from tests.support.webhook import wait_served
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.api.replicas.progress_names import PROGRESS_SECRET
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource

pytestmark = pytest.mark.controlplane

NAMESPACE, SECRET = "tfoperator-system", "tfoperator-webhook-cert"

RunKubectl = Callable[..., str]
Start = Callable[..., OperatorProcess]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    users = {OPERATOR_USER: OPERATOR_GROUPS, "editor": "system:authenticated", "viewer": "system:authenticated"}
    flags = ("--feature-gates=WatchList=false",)
    with control_plane(users=users, audit_policy=AUDIT_POLICY, api_server_flags=flags) as running:
        yield running


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> RunKubectl:
    def run(*arguments: str, user: str = "") -> str:
        done = Kubectl(plane.kubeconfig_for(user) if user else plane.kubeconfig).run(*arguments)
        assert done.stderr == "", done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Iterator[Client]:
    with Client(load_config(str(plane.kubeconfig))) as client:
        install_volcano_crds(client)
        install_coscheduling_crds(client)
        yield client


@pytest.fixture(scope="module")
def rights(kubectl: RunKubectl, admin: Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[Right]]:
    """The overlay with the webhook, and both gangs' components, are applied; the rights by the name of the role."""
    folder = tmp_path_factory.mktemp("overlay")
    write_overlay(folder, ["overlays/webhook"], ["volcano", "scheduler-plugins", "progress"])
    kubectl("apply", "--server-side", "-k", str(folder))
    wait_allowed(admin, OPERATOR_USER, Right("kubeflow.org", "tfjobs", "list"))
    for pod_groups in (VOLCANO_POD_GROUPS, COSCHEDULING_POD_GROUPS):
        wait_allowed(admin, OPERATOR_USER, Right(pod_groups.group, pod_groups.plural, "list"))
    wait_allowed(admin, OPERATOR_USER, Right("", "secrets", "create"), namespace=NAMESPACE)
    rights_by_name: dict[str, set[Right]] = {}
    for (_, name), rules in roles_of(kubectl("kustomize", str(folder))).items():
        rights_by_name.setdefault(name, set()).update(granted(rules))
    return rights_by_name


@pytest.fixture
def start(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def starts(*flags: str, namespace: str = cluster.namespace) -> OperatorProcess:
            kubeconfig = plane.kubeconfig_for(OPERATOR_USER)
            operator = OperatorProcess(kubeconfig, tmp_path, "operator", f"--namespace={namespace}", *flags)
            return stack.enter_context(operator).wait_ready()

        yield starts


def wait_used(trail: AuditTrail, rights: set[Right]) -> None:
    trail.wait_used(rights)
    assert trail.refused() == []


@pytest.mark.parametrize(
    ("scheduler", "role", "pod_groups"),
    [
        ("volcano", "tfoperator-volcano", VOLCANO_POD_GROUPS),
        ("coscheduler", "tfoperator-scheduler-plugins", COSCHEDULING_POD_GROUPS),
    ],
)
def test_each_right_to_pod_groups_is_used(
    scheduler: str,
    role: str,
    pod_groups: Resource,
    plane: ControlPlane,
    cluster: Cluster,
    rights: dict[str, set[Right]],
    start: Start,
) -> None:
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    operator = start(f"--gang-scheduler-name={scheduler}", "--resync-period=1s")
    operated = Operated(cluster, operator)
    taken = {"apiVersion": pod_groups.api_version, "kind": "PodGroup", "metadata": {"name": "taken"}, "spec": {}}
    cluster.client.create(pod_groups, cluster.namespace, taken, decode)
    operated.job("taken", Worker=1).wait_reasons("FailedCreatePodGroup")
    gang = operated.job("gang", Worker=1)

    def members() -> int:
        pod_group = find(cluster.client, pod_groups, cluster.namespace, "gang")
        return int(pod_group["spec"]["minMember"]) if pod_group else 0

    eventually(lambda: members() == 1, every=0.05, what="its PodGroup")
    gang.scale(Worker=2)
    eventually(lambda: members() == 2, every=0.05, what="its PodGroup is larger")
    gang.suspend()
    eventually(lambda: members() == 0, every=0.05, what="its PodGroup has gone")
    to_groups = {right for right in rights["tfoperator"] if right.group == pod_groups.group}
    assert len(to_groups) == 6
    wait_used(trail, to_groups | rights[role])


def test_each_right_of_the_webhook_is_used(
    plane: ControlPlane, admin: Client, rights: dict[str, set[Right]], start: Start
) -> None:
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    port = free_port()
    webhook = (f"--webhook-bind-address=127.0.0.1:{port}", f"--webhook-url=https://127.0.0.1:{port}/convert")
    start(*webhook, f"--webhook-namespace={NAMESPACE}")
    wait_served(admin)
    admin.patch(SECRETS, NAMESPACE, SECRET, {"data": {"tls.crt": "c3BvaWx0"}}, decode)
    # The Secret is looked at when the CRD changes.
    admin.patch(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, {"metadata": {"labels": {"touched": "yes"}}}, decode)
    wait_used(trail, rights["tfoperator-webhook"])


def test_each_right_of_progress_is_used(
    plane: ControlPlane, cluster: Cluster, admin: Client, rights: dict[str, set[Right]], start: Start
) -> None:
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    port = free_port()
    progress = (f"--progress-bind-address=127.0.0.1:{port}", f"--progress-url=https://127.0.0.1:{port}")
    start(*progress, f"--progress-namespace={NAMESPACE}").stop()
    admin.patch(SECRETS, NAMESPACE, PROGRESS_SECRET, {"data": {"tls.crt": "c3BvaWx0"}}, decode)
    start(*progress, f"--progress-namespace={NAMESPACE}")
    wait_used(trail, rights["tfoperator-progress"])


def test_stacks_are_taken_by_the_right_of_their_component_and_without_it_an_event_says_so(
    plane: ControlPlane,
    cluster: Cluster,
    kubectl: RunKubectl,
    rights: dict[str, set[Right]],
    start: Start,
    tmp_path: Path,
) -> None:
    """The command can't run without a kubelet: the test checks how far the API server lets it go."""
    assert not {right for right in rights["tfoperator"] if right.resource == "pods/exec"}
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    operated = Operated(cluster, start("--stall-stacks", f"--archive-dir={tmp_path / 'archive'}"))

    def event_message(name: str) -> str:
        """The event about the stacks of a job whose time is over."""
        job = operated.running(name, Worker=1)
        job.patch_spec(runPolicy={"activeDeadlineSeconds": 1})
        job.wait("Failed")
        job.wait_reasons("StacksNotTaken")
        [message] = [event["message"] for event in job.events() if event["reason"] == "StacksNotTaken"]
        return str(message)

    assert "get and create of pods/exec (the Kustomize component stall-stacks" in event_message("refused")
    refused = {line.partition(" ")[0] for line in trail.refused() if "/exec?" in line}
    assert refused == {"get"}

    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "stall-stacks"}}
    (tmp_path / "role.yaml").write_text(yaml.safe_dump({**role, "rules": roles()["stall-stacks"]}))
    kubectl("apply", "--server-side", "-f", str(tmp_path / "role.yaml"))
    kubectl("create", "clusterrolebinding", "stall-stacks", "--clusterrole=stall-stacks", f"--user={OPERATOR_USER}")
    question = ("auth", "can-i", "get", "pods", "--subresource=exec", f"--namespace={cluster.namespace}")
    eventually(lambda: kubectl(*question, user=OPERATOR_USER) == "yes", what="the right is there")
    assert "worker-0: a command can't be run in its container" in event_message("allowed")
    wait_used(trail, {Right("", "pods/exec", "get")})


def test_who_may_edit_or_view_a_namespace_may_do_so_with_its_tfjobs(
    kubectl: RunKubectl, cluster: Cluster, rights: dict[str, set[Right]]
) -> None:
    assert {"tfoperator-tfjobs-edit", "tfoperator-tfjobs-view"} <= set(rights)
    here = ("--namespace", cluster.namespace)
    for user, role in (("editor", "edit"), ("viewer", "view")):
        kubectl("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}", *here)

    def may(user: str, verb: str, subresource: str = "") -> bool:
        question = ("auth", "can-i", verb, "tfjobs.kubeflow.org", f"--subresource={subresource}")
        return kubectl(*question, *here, user=user) == "yes"

    eventually(lambda: may("editor", "create"), what="the roles are aggregated")
    eventually(lambda: may("viewer", "list"), what="the roles are aggregated")
    assert may("editor", "patch", "scale")
    assert not may("viewer", "create")
    assert not may("editor", "patch", "status")


def test_rights_in_one_namespace_suffice_for_its_jobs(
    plane: ControlPlane, admin: Client, kubectl: RunKubectl, rights: dict[str, set[Right]], start: Start, tmp_path: Path
) -> None:
    """As in overlays/namespaced. Takes away what the operator may in other namespaces."""
    assert "tfoperator" in rights
    there = Cluster(admin, "training")
    there.create_namespace()
    kubectl("delete", "clusterrolebinding", "tfoperator")
    # The CRD of the other overlay, which serves more, stays.
    manifests = kubectl("kustomize", str(MANIFESTS / "overlays" / "namespaced"))
    namespaced = [document for document in yaml.safe_load_all(manifests) if document["kind"] in ("Role", "RoleBinding")]
    (tmp_path / "roles.yaml").write_text(yaml.safe_dump_all(namespaced))
    kubectl("apply", "--server-side", "-f", str(tmp_path / "roles.yaml"))
    wait_allowed(admin, OPERATOR_USER, Right("kubeflow.org", "tfjobs", "list"), namespace="training")
    trail = AuditTrail(plane.audit_log, OPERATOR_USER)
    elect = ("--leader-elect", f"--leader-elect-namespace={NAMESPACE}")
    operator = start(*elect, namespace="training")
    job = Operated(there, operator).running("mnist", PS=1, Worker=1)
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    assert operator.stop() == 0
    assert trail.refused() == []
    asked = [entry["objectRef"] for entry in trail.entries() if entry.get("objectRef")]
    assert {ref.get("namespace", "") for ref in asked} <= {"training", NAMESPACE}
    assert {right for right in trail.used() if right.resource.startswith("/")} == {VERSION, SCHEMA}


def test_what_remains_after_an_uninstallation_is_the_crd_with_its_jobs(
    kubectl: RunKubectl, cluster: Cluster, rights: dict[str, set[Right]]
) -> None:
    """The commands of docs/install.md. Last, as it takes away what the other tests need."""
    ours = ("--selector", "app.kubernetes.io/name=tfoperator")
    every = "namespace,clusterrole,clusterrolebinding,crd"
    assert len(kubectl("get", every, *ours, "--output=name").splitlines()) > len(rights) / 2
    cluster.submit(tfjob("kept", Worker=1))
    for command in uninstallation():
        kubectl(*command)
    left = kubectl("get", every, *ours, "--output=name").splitlines()
    assert left == [f"customresourcedefinition.apiextensions.k8s.io/{CRD_NAME}"]
    assert kubectl("get", "tfjobs", "--namespace", cluster.namespace, "--output=name") == "tfjob.kubeflow.org/kept"


def uninstallation() -> list[list[str]]:
    """The kubectl commands below the heading, each one's arguments."""
    page = (MANIFESTS.parent / "docs" / "install.md").read_text()
    block = page.partition("\n## Uninstall\n")[2].partition("```sh\n")[2].partition("```")[0]
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    assert all(words[0] == "kubectl" for words in lines if words)
    return [words[1:] for words in lines if words]
