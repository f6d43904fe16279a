"""docs/waiting.md: the conditions of a job whose replicas don't start, for each cause, on a node with a real kubelet.

All jobs wait at once. The test makes the page from what it sees, and compares.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from hack.node import NODE_NAME
from tests.support.eventually import eventually
from tests.support.in_cluster import SHELL_IMAGE, InCluster, shell_job
from tests.support.kubectl import Kubectl
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.waiting import reasons_of
from tfoperator.base.clock import SystemClock
from tfoperator.cli.views.description import print_description
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.report.text import report_lines
from tfoperator.sdk import TFJobClient

pytestmark = pytest.mark.timeout(900)

Json = dict[str, Any]
Change = Callable[[Json], None]
"""A change of a job's pod."""

PAGE = Path(__file__).parents[2] / "docs/waiting.md"
REGISTRY = "127.0.0.1:5017"
"""The address of a registry on the node that has no image, and asks for a password for the image `secret`."""


class Case(NamedTuple):
    """A cause: its words in the page, and how a job comes to have it. `where` names a namespace with its own rules."""

    cause: str
    change: Change
    where: str = ""


def container(**fields: Any) -> Change:
    return lambda pod: pod["containers"][0].update(fields)


def pod_field(**fields: Any) -> Change:
    return lambda pod: pod.update(fields)


def init(script: str) -> Change:
    return lambda pod: pod.update(
        initContainers=[{"name": "fetch", "image": SHELL_IMAGE, "command": ["sh", "-c", script]}]
    )


def mounts(**source: Any) -> Change:
    def change(pod: Json) -> None:
        pod["volumes"] = [{"name": "files", **source}]
        pod["containers"][0]["volumeMounts"] = [{"name": "files", "mountPath": "/files"}]

    return change


def nothing(_: Json) -> None:
    pass


FROM_CONFIG = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
FROM_SECRET = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "token", "key": "a"}}}]
WANTED_TAINT = "example.com/kept"

CASES = {
    "quota": Case("a ResourceQuota has no room for the pod", nothing, "quota"),
    "limits": Case("a LimitRange refuses the pod", container(resources={"limits": {"memory": "2Gi"}}), "limits"),
    "security": Case("the pod security level of the namespace refuses the pod", nothing, "security"),
    "policy": Case("an admission policy refuses the pod", nothing, "policy"),
    "webhook": Case("an admission webhook is down", nothing, "webhook"),
    "services": Case("a ResourceQuota has no room for the replica's Service", nothing, "services"),
    "pod-taken": Case("another Pod has the name of the replica's Pod", nothing),
    "service-taken": Case("another Service has the name of the replica's Service", nothing),
    "account": Case("the ServiceAccount does not exist", pod_field(serviceAccountName="trainer")),
    "priority": Case("the PriorityClass does not exist", pod_field(priorityClassName="urgent")),
    "claim": Case("the PersistentVolumeClaim does not exist", mounts(persistentVolumeClaim={"claimName": "data"})),
    "config-variable": Case("a variable refers to a ConfigMap that does not exist", container(env=FROM_CONFIG)),
    "secret-variable": Case("a variable refers to a Secret that does not exist", container(env=FROM_SECRET)),
    "config-volume": Case("a volume refers to a ConfigMap that does not exist", mounts(configMap={"name": "settings"})),
    "secret-volume": Case("a volume refers to a Secret that does not exist", mounts(secret={"secretName": "token"})),
    "image-name": Case("the name of the image is not valid", container(image="Registry/Train:1")),
    "image-missing": Case("the registry does not have the image", container(image=f"{REGISTRY}/missing:1")),
    "image-secret": Case("the registry requires credentials for the image", container(image=f"{REGISTRY}/secret:1")),
    "image-never": Case(
        "the node does not have the image, and imagePullPolicy is Never",
        container(image=f"{REGISTRY}/local:1", imagePullPolicy="Never"),
    ),
    "resources": Case("no node has enough free CPU", container(resources={"requests": {"cpu": "1000"}})),
    "selector": Case("no node matches the nodeSelector", pod_field(nodeSelector={"example.com/disk": "fast"})),
    "init-fails": Case("an init container fails", init("exit 3")),
    "init-hangs": Case("an init container hangs", init("sleep 1000")),
    "taint": Case("every node has a taint that the pod does not tolerate", nothing),
    "node": Case("the kubelet of the pod's node does not answer", nothing),
}
LATE = ("taint", "node")
"""Cases that come last, because they would keep the other jobs from starting."""


def job_of(name: str) -> Json:
    case = CASES[name]
    policy = "OnFailure" if name == "init-fails" else "Never"
    job = shell_job(name, "sleep 1000", restart_policy=policy)
    case.change(job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"])
    return job


def rules(team: str) -> Iterator[Json]:
    """The namespaces with rules of their own, and the objects that have names of replicas."""
    labels = {"security": {"pod-security.kubernetes.io/enforce": "restricted"}}
    for where in sorted({case.where for case in CASES.values() if case.where}):
        own = {"team": f"{team}-{where}", **labels.get(where, {})}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{team}-{where}", "labels": own}}
    quotas = {"quota": {"pods": "0"}, "services": {"services": "0"}}
    for where, hard in quotas.items():
        yield of("v1", "ResourceQuota", "few", f"{team}-{where}", spec={"hard": hard})
    limit = {"type": "Container", "max": {"memory": "1Gi"}}
    yield of("v1", "LimitRange", "small", f"{team}-limits", spec={"limits": [limit]})
    yield of("v1", "Service", "service-taken-worker-0", team, spec={"ports": [{"port": 80}]})
    other = {"containers": [{"name": "a", "image": SHELL_IMAGE, "command": ["sleep", "1000"]}]}
    yield of("v1", "Pod", "pod-taken-worker-0", team, spec=other)
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selects = {
        where: {"namespaceSelector": {"matchLabels": {"team": f"{team}-{where}"}}} for where in ("policy", "webhook")
    }
    spec = {
        "matchConstraints": {"resourceRules": [pods]},
        "validations": [{"expression": "false", "message": "no pods on Sundays"}],
    }
    admission = "admissionregistration.k8s.io/v1"
    yield of(admission, "ValidatingAdmissionPolicy", "sundays", "", spec=spec)
    binding = {"policyName": "sundays", "validationActions": ["Deny"], "matchResources": selects["policy"]}
    yield of(admission, "ValidatingAdmissionPolicyBinding", "sundays", "", spec=binding)
    hook = {
        "name": "images.example.com", "rules": [pods], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": team, "name": "nobody"}}, "timeoutSeconds": 1, **selects["webhook"],
    }  # fmt: skip
    yield of(admission, "ValidatingWebhookConfiguration", "images", "", webhooks=[hook])


def of(version: str, kind: str, name: str, namespace: str, **fields: Any) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def registry(team: str) -> Json:
    """A server on the node that answers for images: there is none, and `secret` needs a password."""
    script = (
        "mkdir -p /tmp/www/v2/secret && echo '/v2/secret:user:word' > /tmp/conf && "
        f"exec busybox httpd -f -p {REGISTRY} -h /tmp/www -c /tmp/conf"
    )
    server = {"name": "server", "image": SHELL_IMAGE, "command": ["sh", "-c", script]}
    return of("v1", "Pod", "registry", team, spec={"hostNetwork": True, "containers": [server]})


class Seen:
    """The words of condition, `describe` and `report` about a job's replica, in the form of the page."""

    def __init__(self, client: Client, team: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.clients = {
            case.where: TFJobClient(client=client, namespace=f"{team}-{case.where}" if case.where else team)
            for case in CASES.values()
        }
        self.team = team
        self.capsys = capsys

    def condition(self, name: str) -> str:
        """The reason of the job's worker in its condition; empty if there is none yet."""
        job = self.clients[CASES[name].where].get_job(name)
        reason = reasons_of(job.status.waiting).get(("Worker", 0))
        messages = [condition.message for condition in job.status.conditions if condition.type == ConditionType.RUNNING]
        assert reason is None or f"Worker-0 waits: {reason}" in messages[0]
        return "" if reason is None else str(reason)

    def views_agree(self, name: str, reason: str) -> None:
        """Check that `describe` and `report` have the statement and the next step of the condition."""
        client = self.clients[CASES[name].where]
        job, pods = client.get_job(name), client.get_job_pods(name)
        self.capsys.readouterr()
        print_description(job, pods, client.get_job_events(name), SystemClock().now(), {})
        described = " ".join(self.capsys.readouterr().out.split("Conditions:")[0].split())
        reported = "\n".join(report_lines(client.get_job_report(name)))
        statement, _, step = reason.partition(". Next: ")
        if name == "init-fails" and "worker-0 failed with exit code 3" in reported:
            # Between its end and its next start it is reported as a failure, with its exit code and its log.
            reported = described
        for text in (described, reported):
            assert statement in text, (name, statement, text)
            assert step in text, (name, step, text)

    def everything(self, name: str) -> str:
        """The conditions and events of a job, for the message of a failure."""
        client = self.clients[CASES[name].where]
        events = [f"{event.reason}: {event.message}" for event in client.get_job_events(name)]
        return "\n".join([str(client.get_job(name).status.conditions), *events])

    def general(self, text: str) -> str:
        """The text without what differs from one run to the next."""
        text = re.sub(rf"{self.team}(-\w+)?", "NAMESPACE", text.replace(NODE_NAME, "NODE"))
        return re.sub(r"\d\d:\d\d:\d\d UTC", "12:00:00 UTC", text)


def apply(namespace: InCluster, objects: list[Json]) -> None:
    """Apply objects of several namespaces, those that have none first."""
    by_namespace: dict[str, list[Json]] = {"": []}
    for obj in objects:
        by_namespace.setdefault(obj["metadata"].get("namespace", ""), []).append(obj)
    for where, some in by_namespace.items():
        if some:
            kubectl = Kubectl(namespace.cluster.kubeconfig, where or namespace.namespace)
            kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(some))


def page(reasons: Mapping[str, str]) -> str:
    """The page, with what was found."""
    head = PAGE.read_text().partition("| cause | reason |\n")[0]
    rows = [f"| {CASES[name].cause} | {text.replace('|', '/')} |" for name, text in reasons.items()]
    return f"{head}| cause | reason |\n|---|---|\n" + "\n".join(rows) + "\n"


def test_what_does_not_start_says_why_everywhere(namespace: InCluster, capsys: pytest.CaptureFixture[str]) -> None:
    team, kubectl = namespace.namespace, namespace.kubectl
    apply(namespace, [*rules(team), registry(team)])
    kubectl("wait", "--for=condition=Ready", "pod/registry", "--timeout=60s")
    for where, counted in (("quota", "pods"), ("services", "services")):
        quota = Kubectl(namespace.cluster.kubeconfig, f"{team}-{where}")
        quota("wait", f"--for=jsonpath={{.status.hard.{counted}}}=0", "resourcequota/few", "--timeout=60s")
    reasons: dict[str, str] = {}
    with Client(load_config(str(namespace.cluster.kubeconfig))) as client:
        views = Seen(client, team, capsys)

        def settled(name: str) -> str:
            reason = views.condition(name)
            wanted = expected.get(CASES[name].cause, "")
            assert reason, f"{name} does not say why:\n{views.everything(name)}"
            assert not wanted or views.general(reason) == wanted, f"{name}: {views.general(reason)}, not {wanted}"
            return reason

        def look(names: list[str], within: float) -> None:
            for name in names:
                try:
                    reason = eventually(lambda name=name: settled(name), within=within, every=0.5, what=name)
                except AssertionError:
                    reason = views.condition(name)  # differs from the page: all differences are reported at the end
                    if not reason:
                        raise
                views.views_agree(name, reason)
                reasons[name] = views.general(reason)

        expected = dict(re.findall(r"^\| (.+?) \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
        early = [name for name in CASES if name not in LATE]
        jobs = [job_of(name) for name in early]
        for job in jobs:
            where = CASES[job["metadata"]["name"]].where
            job["metadata"]["namespace"] = f"{team}-{where}" if where else team
        apply(namespace, jobs)
        try:
            look(early, within=20)
            namespace.apply(job_of("node"))
            views.clients[""].wait_for_job_conditions("node", expected_conditions={"Running"}, wait_timeout=60)
            kubectl("taint", "node", NODE_NAME, f"{WANTED_TAINT}=gpu:NoSchedule")
            namespace.apply(job_of("taint"))
            look(["taint"], within=30)
            with namespace.cluster.without_kubelet():
                look(["node"], within=120)
        finally:
            namespace.kubectl.run("taint", "node", NODE_NAME, f"{WANTED_TAINT}-")  # if it has come to that
            kubectl("delete", "validatingadmissionpolicybinding/sundays", "validatingadmissionpolicy/sundays")
            kubectl("delete", "validatingwebhookconfiguration/images")
            for where in filter(None, views.clients):
                kubectl("delete", "namespace", f"{team}-{where}", "--wait=false")
    kubectl("wait", "--for=condition=Ready", f"node/{NODE_NAME}", "--timeout=180s", timeout=200)
    made = page(reasons)
    kept = Path(tempfile.gettempdir(), "waiting.md")
    if made != PAGE.read_text():
        kept.write_text(made)
    assert made == PAGE.read_text(), f"docs/waiting.md says something else; what was found is in {kept}"


def test_every_cause_of_the_page_is_tried() -> None:
    causes = re.findall(r"^\| (.+?) \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    assert causes == ["cause", *(case.cause for case in CASES.values())]
