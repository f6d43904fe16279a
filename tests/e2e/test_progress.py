"""Progress on a real API server: its tokens, its keys, its columns. The test plays the programs, and strangers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest

from hack import strangers
from hack.controlplane import ControlPlane
from hack.processes import free_ports
from tests.e2e.programs_that_report import KUBEFLOW
from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operator_process import OperatorProcess
from tests.unit.progress_server.samples import forged
from tfoperator.api.progress_names import ANNOTATION_PROGRESS_CA, CA_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from tfoperator.kube.errors import AlreadyExistsError
from tfoperator.kube.resources import LEASES, PODS, Resource

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]

SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
WAIT = 60.0


class Reporters:
    """The programs of a namespace's pods, with what their pods would give them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        with suppress(AlreadyExistsError):
            cluster.client.create(SERVICE_ACCOUNTS, cluster.namespace, {"metadata": {"name": "default"}}, decode)

    def submit(self, name: str, **replicas: int) -> None:
        manifest = tfjob(name, **replicas)
        manifest["spec"]["progress"] = {}
        for spec in manifest["spec"]["tfReplicaSpecs"].values():
            # An admission plugin says so in a cluster.
            spec["template"]["spec"]["serviceAccountName"] = "default"
        self.cluster.submit(manifest)
        names = {f"{name}-{kind.lower()}-{index}" for kind, count in replicas.items() for index in range(count)}
        eventually(lambda: names <= set(self.cluster.pods()), within=WAIT, every=0.05, what=f"the pods of {name}")

    def pod(self, name: str) -> Json:
        return dict(self.cluster.client.get(PODS, self.cluster.namespace, name, decode))

    def variables(self, pod: str) -> dict[str, str]:
        (container,) = self.pod(pod)["spec"]["containers"]
        return {one["name"]: one["value"] for one in container["env"] if "value" in one}

    def audience(self, pod: str) -> str:
        (volume,) = [one for one in self.pod(pod)["spec"]["volumes"] if one["name"] == "tfoperator-progress"]
        return str(volume["projected"]["sources"][0]["serviceAccountToken"]["audience"])

    def token(self, pod: str, audience: str = "", *, bound: bool = True) -> str:
        """A token as the kubelet gets it for the pod; for another audience if one is given."""
        meta = self.pod(pod)["metadata"]
        spec: Json = {"audiences": [audience or self.audience(pod)], "expirationSeconds": 3600}
        if bound:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": meta["uid"]}
        requests = Resource("", "v1", "TokenRequest", "serviceaccounts/default/token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.cluster.client.create(requests, self.cluster.namespace, body, decode)["status"]["token"])

    def environment(self, pod: str) -> dict[str, str]:
        """The variables of the pod's program, with its two files where this machine has them."""
        files = self.folder / pod
        files.mkdir(exist_ok=True)
        (files / "ca.crt").write_text(self.pod(pod)["metadata"]["annotations"][ANNOTATION_PROGRESS_CA])
        (files / "token").write_text(self.token(pod))
        variables = self.variables(pod)
        return {
            URL_VARIABLE: variables[URL_VARIABLE],
            CA_VARIABLE: str(files / Path(variables[CA_VARIABLE]).name),
            TOKEN_VARIABLE: str(files / Path(variables[TOKEN_VARIABLE]).name),
        }

    def post(self, pod: str, status: Any, token: str = "") -> tuple[int, Json]:
        """Report as the program of this pod does, or with another token."""
        environment = self.environment(pod)
        request = urllib.request.Request(
            environment[URL_VARIABLE],
            json.dumps({"trainerStatus": status}).encode(),
            {"Authorization": f"Bearer {token or Path(environment[TOKEN_VARIABLE]).read_text()}"},
        )
        context = ssl.create_default_context(cafile=environment[CA_VARIABLE])
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def accepted(self, pod: str, status: Any, token: str = "") -> Json:
        """As `post`, as soon as the operator knows the pod and the cluster's keys; the report as it was understood."""

        def answer() -> Json:
            code, found = self.post(pod, status, token)
            assert code == 200, found
            return found

        return eventually(answer, within=WAIT, every=0.2, what=f"the report of {pod} is taken")

    def wait_percentage(self, name: str, percentage: int) -> Json:
        def found() -> Json | None:
            progress = (self.cluster.job(name).get("status") or {}).get("progress") or {}
            return progress if progress.get("percentage") == percentage else None

        return eventually(found, within=WAIT, every=0.05, what=f"{name} at {percentage} %") or {}


@pytest.fixture
def reporters(cluster: Cluster, tmp_path: Path) -> Reporters:
    return Reporters(cluster, tmp_path)


def flags(cluster: Cluster, port: int) -> tuple[str, ...]:
    return (
        f"--progress-bind-address=127.0.0.1:{port}",
        f"--progress-url=https://127.0.0.1:{port}",
        f"--progress-namespace={cluster.namespace}",
    )


def test_a_pods_program_reports_and_kubectl_shows_it(
    cluster: Cluster, reporters: Reporters, start_operator: Start, plane: ControlPlane
) -> None:
    (port,) = free_ports(1)
    operator = start_operator(*flags(cluster, port))
    reporters.submit("mnist", Worker=2)
    sent = [{"name": "current_step", "value": "430"}, {"name": "loss", "value": "0.2"}]
    status = {"progressPercentage": 43, "estimatedRemainingSeconds": 200, "metrics": sent}
    assert reporters.accepted("mnist-worker-1", status)["trainerStatus"]["progressPercentage"] == 43
    found = reporters.wait_percentage("mnist", 43)
    assert (found["replica"], found["step"], found["metrics"]) == ("worker-1", 430, sent[1:])
    cluster.wait_condition("mnist", "Created", WAIT)
    kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
    header, row = (line.split() for line in kubectl("get", "tfj", "mnist").splitlines())
    shown = dict(zip(header, row, strict=True))
    assert (shown["PROGRESS"], shown["ETA"]) == ("43%", "3m20s")
    labels = f'{{job_name="mnist",job_namespace="{cluster.namespace}"}}'
    eventually(
        lambda: operator.metrics().get(f"tfoperator_job_progress_ratio{labels}") == 0.43, within=WAIT, what="its gauge"
    )
    # The SDK of another project, as its users have it.
    environment = reporters.environment("mnist-worker-0")
    reporters.accepted("mnist-worker-0", {"progressPercentage": 1})
    command = [str(strangers.find()), "-c", KUBEFLOW]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    reporters.wait_percentage("mnist", 42)
    # The job ends at once after a report: its last status has both.
    reporters.accepted("mnist-worker-0", {"progressPercentage": 100})
    for index in range(2):
        cluster.set_phase(f"mnist-worker-{index}", "Succeeded")
    cluster.wait_condition("mnist", "Succeeded", WAIT)
    reporters.wait_percentage("mnist", 100)
    assert operator.stop() == 0


def test_tokens_of_others_are_refused_by_the_keys_of_a_real_cluster(
    cluster: Cluster, reporters: Reporters, start_operator: Start
) -> None:
    (port,) = free_ports(1)
    start_operator(*flags(cluster, port))
    for name in ("mine", "theirs"):
        reporters.submit(name, Worker=1)
    mine = "mine-worker-0"
    good, audience = reporters.token(mine), reporters.audience(mine)
    published = json.loads(cluster.client.get_raw("/openid/v1/jwks", accept="*/*"))["keys"][0]  # type: ignore[attr-defined]
    head, body, _ = good.split(".")
    claims = jwt.decode(good, options={"verify_signature": False})
    half = forged({"alg": "HS256", "typ": "JWT", "kid": published["kid"]}, claims).rpartition(".")[0]
    digest = hmac.new(json.dumps(published).encode(), half.encode(), hashlib.sha256).digest()
    with_public_key = f"{half}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    attacks = {
        "another job's": reporters.token("theirs-worker-0"),
        "another job's pod, this audience": reporters.token("theirs-worker-0", audience),
        "for the API server": reporters.token(mine, "https://kubernetes.default.svc.cluster.local"),
        "of an account, not a pod": reporters.token(mine, audience, bound=False),
        "unsigned": forged({"alg": "none", "kid": published["kid"]}, claims),
        "signature cut": f"{head}.{body}.",
        "HMAC by the public key": with_public_key,
    }
    # From here on it is not for its being new that a pod is refused.
    reporters.accepted(mine, {"progressPercentage": 4}, good)
    reporters.accepted("theirs-worker-0", {"progressPercentage": 4})
    for what, token in attacks.items():
        code, answer = reporters.post(mine, {"progressPercentage": 66}, token)
        assert (what, code, answer["kind"]) == (what, 403, "Status")
    assert reporters.post(mine, {"progressPercentage": 5}, good)[0] == 200
    reporters.wait_percentage("mine", 5)
    # A token outlives its pod; what it is good for does not.
    cluster.delete_pod(mine)
    uid = claims["kubernetes.io"]["pod"]["uid"]

    def replaced() -> bool:
        pod = cluster.pods().get(mine)
        return pod is not None and pod["metadata"]["uid"] != uid

    eventually(replaced, within=WAIT, every=0.05, what="its successor")
    eventually(lambda: reporters.post(mine, {"progressPercentage": 67}, good)[0] == 403, within=WAIT, every=0.2)
    assert "theirs" not in str(reporters.wait_percentage("mine", 5))


def test_any_replica_of_the_operator_takes_reports_and_a_killed_leader_loses_one_at_most(
    cluster: Cluster, reporters: Reporters, start_operator: Start
) -> None:
    ports = free_ports(2)
    # Nobody loses a lease for being slow. That of the leader that is killed is ended by the test.
    election = (
        "--leader-elect", f"--leader-elect-namespace={cluster.namespace}", "--leader-elect-lease-duration=10m",
        "--leader-elect-renew-deadline=5m", "--leader-elect-retry-period=300ms",
    )  # fmt: skip
    leader = start_operator(*flags(cluster, ports[0]), *election)
    eventually(lambda: leader.metrics().get("tfoperator_leader") == 1, within=WAIT, what="a leader")
    follower = start_operator(*flags(cluster, ports[1]), *election)
    reporters.submit("shared", Worker=2)
    own = reporters.variables("shared-worker-0")[URL_VARIABLE]
    assert f":{ports[0]}/" in own

    def at(port: int) -> Callable[[str], dict[str, str]]:
        def variables(pod: str) -> dict[str, str]:
            return Reporters.variables(reporters, pod) | {URL_VARIABLE: own.replace(f":{ports[0]}/", f":{port}/")}

        return variables

    def report(port: int, percentage: int) -> None:
        reporters.variables = at(port)  # type: ignore[method-assign]
        reporters.accepted("shared-worker-0", {"progressPercentage": percentage})

    report(ports[1], 10)  # the standby writes what it receives
    reporters.wait_percentage("shared", 10)
    report(ports[0], 20)
    reporters.wait_percentage("shared", 20)
    leader.kill()
    report(ports[1], 30)
    assert reporters.wait_percentage("shared", 30)["replica"] == "worker-0"
    (lease,) = cluster.client.list(LEASES, cluster.namespace, decode).items
    over = {"spec": {"holderIdentity": ""}}
    cluster.client.patch(LEASES, cluster.namespace, lease["metadata"]["name"], over, decode)
    eventually(lambda: follower.metrics().get("tfoperator_leader") == 1, within=WAIT, what="another leader")
