"""Progress on a real API server: its tokens, its keys, its columns. The test plays the programs, and strangers."""

from collections.abc import Callable
from pathlib import Path

import jwt
import pytest

from hack.controlplane import ControlPlane
from hack.processes import free_ports
from tests.support.cluster import Cluster, decode
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operator_process import OperatorProcess
from tests.support.reporters import WAIT, Reporters
from tfoperator.api.replicas.progress_names import URL_VARIABLE
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import LEASES

pytestmark = pytest.mark.controlplane

Start = Callable[..., OperatorProcess]


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
    progress = reporters.wait_percentage("mnist", 43)
    assert (progress["replica"], progress["step"], progress["metrics"]) == ("worker-1", 430, sent[1:])
    cluster.wait_condition("mnist", "Created", WAIT)
    kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
    header, row = (line.split() for line in kubectl("get", "tfj", "mnist").splitlines())
    shown = dict(zip(header, row, strict=True))
    assert (shown["PROGRESS"], shown["ETA"]) == ("43%", "3m20s")
    labels = f'{{job_name="mnist",job_namespace="{cluster.namespace}"}}'
    eventually(
        lambda: operator.metrics().get(f"tfoperator_job_progress_ratio{labels}") == 0.43, within=WAIT, what="its gauge"
    )
    # The job ends at once after a report: its last status has both.
    last = {"name": "last", "value": "1"}
    reporters.accepted("mnist-worker-0", {"progressPercentage": 100, "metrics": [last]})
    for index in range(2):
        cluster.set_phase(f"mnist-worker-{index}", "Succeeded")
    cluster.wait_condition("mnist", "Succeeded", WAIT)
    ended = cluster.job("mnist")["status"]["progress"]
    assert (ended["percentage"], ended["metrics"][0]) == (100, last)
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
    claims = jwt.decode(good, options={"verify_signature": False})
    attacks = {
        "another job's": reporters.token("theirs-worker-0"),
        "another job's pod, this audience": reporters.token("theirs-worker-0", audience),
        "for the API server": reporters.token(mine, "https://kubernetes.default.svc.cluster.local"),
        "of an account, not a pod": reporters.token(mine, audience, bound=False),
        "signature cut": good[: good.rindex(".") + 1],
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
    # A token is not good for another job of the same name either.
    old = reporters.token("theirs-worker-0")
    before = cluster.job("theirs")["metadata"]["uid"]
    cluster.client.delete(TFJOBS, cluster.namespace, "theirs")
    eventually(lambda: "theirs-worker-0" not in cluster.pods(), within=WAIT, every=0.05, what="its pod is gone")
    reporters.submit("theirs", Worker=1)
    assert cluster.job("theirs")["metadata"]["uid"] != before
    reporters.accepted("theirs-worker-0", {"progressPercentage": 6})
    assert reporters.post("theirs-worker-0", {"progressPercentage": 99}, old)[0] == 403
    reporters.wait_percentage("theirs", 6)


def test_the_strangest_report_that_is_taken_is_one_that_the_api_server_takes(
    cluster: Cluster, reporters: Reporters, start_operator: Start
) -> None:
    (port,) = free_ports(1)
    start_operator(*flags(cluster, port))
    reporters.submit("strange", Worker=1)
    pod = "strange-worker-0"
    texts = ("\x00\u202e\x1b[2J<script>", "\U0001f600" * 64, "nan", "1e308", "-1")
    metrics = [{"name": text, "value": text} for text in texts]
    metrics += [{"name": f"m{number}", "value": "1"} for number in range(250)]
    metrics.append({"name": "current_step", "value": str(2**53)})
    most = {"progressPercentage": 7, "estimatedRemainingSeconds": 2**63 - 1, "metrics": metrics}
    reporters.accepted(pod, most)
    progress = reporters.wait_percentage("strange", 7)
    assert (progress["estimatedRemainingSeconds"], progress["step"]) == (2**63 - 1, 2**53)
    assert [metric["name"] for metric in progress["metrics"][: len(texts)]] == list(texts)
    assert len(progress["metrics"]) == 16
    for refused in ({"progressPercentage": 10**400}, {"metrics": [*metrics, {"name": "one", "value": "too many"}]}):
        assert reporters.post(pod, refused)[0] == 422
    # Its status can be written by the operator, too.
    cluster.set_phase(pod, "Succeeded")
    cluster.wait_condition("strange", "Succeeded", WAIT)
    reporters.wait_percentage("strange", 7)


def test_any_replica_of_the_operator_takes_reports_and_a_killed_leader_loses_one_at_most(
    cluster: Cluster, reporters: Reporters, start_operator: Start
) -> None:
    ports = free_ports(2)
    # A slow leader keeps its lease. When the test kills the leader, it also ends the lease.
    election = (
        "--leader-elect", f"--leader-elect-namespace={cluster.namespace}", "--leader-elect-lease-duration=10m",
        "--leader-elect-renew-deadline=5m", "--leader-elect-retry-period=300ms",
    )  # fmt: skip
    leader = start_operator(*flags(cluster, ports[0]), *election)
    eventually(lambda: leader.metrics().get("tfoperator_leader") == 1, within=WAIT, what="a leader")
    follower = start_operator(*flags(cluster, ports[1]), *election)
    names = [f"shared-{number}" for number in range(4)]
    for name in names:
        reporters.submit(name, Worker=2)

    def variables_at(port: int) -> Callable[[str], dict[str, str]]:
        def variables(pod: str) -> dict[str, str]:
            own = Reporters.variables(reporters, pod)
            assert f":{ports[0]}/" in own[URL_VARIABLE]
            return own | {URL_VARIABLE: own[URL_VARIABLE].replace(f":{ports[0]}/", f":{port}/")}

        return variables

    def report(port: int, percentage: int) -> None:
        reporters.variables = variables_at(port)  # type: ignore[method-assign]
        for name in names:
            reporters.accepted(f"{name}-worker-0", {"progressPercentage": percentage})

    def wait_for_all(percentage: int) -> None:
        for name in names:
            assert reporters.wait_percentage(name, percentage)["replica"] == "worker-0"

    report(ports[1], 10)  # the standby writes what it receives
    wait_for_all(10)
    report(ports[0], 20)
    wait_for_all(20)
    report(ports[0], 25)
    leader.kill()
    # Written reports stay; at most one report of each job was taken and not written yet.
    for name in names:
        assert cluster.job(name)["status"]["progress"]["percentage"] in (20, 25)
    report(ports[1], 30)
    wait_for_all(30)
    (lease,) = cluster.client.list(LEASES, cluster.namespace, decode).items
    over = {"spec": {"holderIdentity": ""}}
    cluster.client.patch(LEASES, cluster.namespace, lease["metadata"]["name"], over, decode)
    eventually(lambda: follower.metrics().get("tfoperator_leader") == 1, within=WAIT, what="another leader")
    wait_for_all(30)
