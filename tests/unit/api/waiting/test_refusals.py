"""API servers' own words, of 1.35 and 1.37."""

import random

import pytest

from tests.support.fake_api import api_error
from tfoperator.api.waiting import Reason, ReasonKind, refused_because_taken, refused_by, same_words
from tfoperator.kube.protocol.errors import KubeError, TransportError

QUOTA = (
    'pods "big-worker-2" is forbidden: exceeded quota: few, requested: pods=1,requests.cpu=2, used: '
    "pods=2,requests.cpu=4, limited: pods=2,requests.cpu=4"
)
SECURITY = (
    'pods "big-worker-0" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
    '(container "tensorflow" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true'
)
LIMITS = (
    'pods "big-worker-0" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, '
    "minimum memory usage per Container is 1Gi, but request is 512Mi]"
)


def of(message: str, code: int = 403, reason: str = "Forbidden", noun: str = "pod") -> Reason:
    refusal = refused_by(noun, api_error(code, reason, message))
    assert refusal is not None
    return refusal


@pytest.mark.parametrize(
    ("message", "kind", "expected", "step"),
    [
        (
            QUOTA,
            ReasonKind.QUOTA,
            "ResourceQuota few has no room for its pod, which needs pods=1,requests.cpu=2: the quota allows "
            "pods=2,requests.cpu=4 in total",
            "request less",
        ),
        (
            'pods "x" is forbidden: failed quota: few: must specify cpu for: tensorflow; memory for: tensorflow',
            ReasonKind.QUOTA,
            "ResourceQuota few needs values that its pod does not have: cpu for: tensorflow, memory for: tensorflow",
            "set these resources",
        ),
        (
            LIMITS,
            ReasonKind.LIMIT_RANGE,
            "a LimitRange of the namespace refuses its pod: maximum cpu usage per Container is 1, but limit is 2, "
            "minimum memory usage per Container is 1Gi, but request is 512Mi",
            "change the resources",
        ),
        (
            SECURITY,
            ReasonKind.POD_SECURITY,
            "the namespace's pod security level restricted:latest refuses its pod: allowPrivilegeEscalation != false "
            '(container "tensorflow" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true',
            "pod-security.kubernetes.io/enforce",
        ),
        (
            'pods "x" is forbidden: error looking up service account ns/trainer: serviceaccount "trainer" not found',
            ReasonKind.NO_SERVICE_ACCOUNT,
            "its pod needs ServiceAccount trainer, which does not exist in namespace ns",
            "create the ServiceAccount",
        ),
        (
            'pods "x" is forbidden: no PriorityClass with name urgent was found',
            ReasonKind.NO_PRIORITY_CLASS,
            "its pod needs PriorityClass urgent, which does not exist",
            "create the PriorityClass",
        ),
        (
            'pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
            ReasonKind.NO_RUNTIME_CLASS,
            "its pod needs RuntimeClass gvisor, which does not exist",
            "create the RuntimeClass",
        ),
        (
            'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the '
            'namespace "ns"',
            ReasonKind.NO_RIGHTS,
            "the operator has no right to create pods in this namespace",
            "ClusterRole",
        ),
        (
            'pods "x" is forbidden: something new; of a plugin',
            ReasonKind.REFUSED,
            "the API server refuses its pod: something new, of a plugin",
            "correct the field",
        ),
    ],
)
def test_each_refusal_of_kubernetes_has_a_kind_and_a_next_step(
    message: str, kind: ReasonKind, expected: str, step: str
) -> None:
    refusal = of(message)
    assert (refusal.kind, refusal.message) == (kind, expected)
    assert step in refusal.next_step
    assert ";" not in str(refusal)


@pytest.mark.parametrize(("code", "reason"), [(400, "BadRequest"), (403, "Forbidden"), (409, "Conflict"), (500, "")])
def test_a_webhook_may_deny_with_any_code(code: int, reason: str) -> None:
    refusal = of('admission webhook "images.example.com" denied the request: no tag;\n latest', code, reason)
    assert refusal.kind is ReasonKind.DENIED
    assert refusal.message == "the admission webhook images.example.com refuses its pod: no tag, latest"


def test_a_policy_and_a_webhook_that_does_not_answer_are_named() -> None:
    policy = "ValidatingAdmissionPolicy 'no-root' with binding 'all' denied request: root is not allowed"
    refusal = of(f'pods "x" is forbidden: {policy}', 422, "Invalid")
    assert refusal.message == "the admission policy no-root refuses its pod: root is not allowed"
    down = of('Internal error occurred: failed calling webhook "a.b": failed to call webhook: dial tcp', 500)
    other = of('Internal error occurred: failed calling webhook "a.b": context deadline exceeded', 500)
    assert down == other
    assert down.message == "the API server can't create its pod, because the admission webhook a.b does not answer"


@pytest.mark.parametrize(
    "error", [TransportError("reset"), api_error(503, "ServiceUnavailable", "x"), api_error(409, "Conflict", "x")]
)
def test_an_outage_says_nothing_about_the_request(error: KubeError) -> None:
    assert refused_by("pod", error) is None


def test_a_service_and_what_all_replicas_need_are_named_as_such() -> None:
    services = (
        'services "x" is forbidden: exceeded quota: few, requested: services=1, used: services=2, limited: services=2'
    )
    assert "for its service" in of(services, noun="service").message
    assert "for the PodGroup of its job" in of(services, noun="PodGroup").message


def test_numbers_ids_and_order_are_no_news() -> None:
    shuffled = LIMITS.replace("[maximum cpu usage per Container is 1, but limit is 2, ", "[").replace(
        "512Mi]", "512Mi, maximum cpu usage per Container is 1, but limit is 2]"
    )
    assert of(LIMITS) == of(shuffled)
    first, other = (
        f'admission webhook "w" denied the request: quota of team a, request {random.getrandbits(99):x}1' for _ in "12"
    )
    assert of(first) != of(other)
    assert same_words(of(first), of(other))
    assert not same_words(of(first), of('admission webhook "w" denied the request: no tag'))


def test_a_name_that_is_taken_says_by_what_and_what_to_do() -> None:
    taken = "Pod ns/a has a name that this job needs: it does not belong to this job"
    message = f"{taken}. Delete it; the job's own is created then"
    refusal = refused_because_taken(message, leaves=False)
    assert str(refusal) == f"NameTaken: {taken}. Next: delete it, the job's own is created then"
    late = refused_because_taken(
        "Pod ns/a has a name that this job needs: it should have gone at T, but. The job's own", leaves=True
    )
    assert late.kind is ReasonKind.NAME_LEAVING
