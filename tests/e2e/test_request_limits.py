"""The limits of the operator's requests: by default the API server alone, whose wishes (429) it heeds."""

from collections.abc import Callable, Iterator

import pytest

from hack.controlplane import ControlPlane
from tests.e2e.conftest import SQUEEZED_USER
from tests.support.audit import Right, wait_allowed
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import Resource

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]

FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
PRIORITY_LEVELS = Resource(FLOW_CONTROL, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", False)
FLOW_SCHEMAS = Resource(FLOW_CONTROL, "v1", "FlowSchema", "flowschemas", False)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")

NARROW = {
    "type": "Limited",
    "limited": {"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}},
}
OF_THE_SQUEEZED = {
    "subjects": [{"kind": "User", "user": {"name": SQUEEZED_USER}}],
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
}


def total(metrics: dict[str, float], name: str, label: str = "") -> float:
    """The sum over all labels, or over those that hold `label`."""
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name and label in key)


def waited(operator: OperatorProcess) -> float:
    """Seconds that requests have waited for the operator's own limit."""
    return total(operator.metrics(), "rest_client_rate_limiter_duration_seconds_sum")


def test_with_a_limit_requests_wait_for_it(cluster: Cluster, start_operator: Start) -> None:
    # A limit that an operator on the busiest machine still comes up against.
    operator = start_operator("--kube-api-qps=5", "--kube-api-burst=1")
    cluster.submit(tfjob("job", Worker=5))
    cluster.wait_pods(5)
    assert waited(operator) > 0


@pytest.fixture
def squeezed(admin: Client, cluster: Cluster) -> Iterator[Cluster]:
    """Its namespace is SQUEEZED_USER's, of whose requests the API server turns away all but one or two at a time."""
    binding = {
        "metadata": {"name": "all"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": SQUEEZED_USER}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }
    admin.create(ROLE_BINDINGS, cluster.namespace, binding, decode)
    name: Json = {"metadata": {"name": "narrow"}}
    admin.create(PRIORITY_LEVELS, "", name | {"spec": NARROW}, decode)
    flow = {"priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 2, "rules": [OF_THE_SQUEEZED]}
    admin.create(FLOW_SCHEMAS, "", name | {"spec": flow}, decode)

    def in_force() -> bool:
        status = admin.get(FLOW_SCHEMAS, "", "narrow", decode).get("status", {})
        return any(
            condition["type"] == "Dangling" and condition["status"] == "False"
            for condition in status.get("conditions") or ()
        )

    eventually(in_force, what="the flow has its priority level")
    wait_allowed(admin, SQUEEZED_USER, Right("", "pods", "create"), namespace=cluster.namespace)
    yield cluster
    admin.delete(FLOW_SCHEMAS, "", "narrow")
    admin.delete(PRIORITY_LEVELS, "", "narrow")


def test_an_api_server_that_turns_requests_away_is_heeded_and_nothing_is_lost(
    plane: ControlPlane, squeezed: Cluster, start_operator: Start
) -> None:
    operator = start_operator(kubeconfig=plane.kubeconfig_for(SQUEEZED_USER))

    def retried() -> float:
        return total(operator.metrics(), "rest_client_request_retries_total", 'code="429"')

    # Only requests at one time are turned away: it depends on the machine how many jobs that takes.
    for jobs in range(1, 26):
        squeezed.submit(tfjob(f"job-{jobs}", Worker=20))
        pods = squeezed.wait_pods(20 * jobs, within=90)
        if retried():
            break
    else:
        pytest.fail("the API server was not narrow enough to prove anything")
    for pod in pods:
        squeezed.set_phase(pod, "Running")
    for number in range(1, jobs + 1):
        squeezed.wait_condition(f"job-{number}", "Running", within=60)
    assert waited(operator) == 0
    assert not [event for event in squeezed.events() if event["type"] == "Warning"]
