"""The whole server, over TLS, against a fake API server: who may report, and what becomes of it."""

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi, api_error
from tests.support.threads import run_at_once
from tests.unit.servers.progress.samples import Cluster, forged
from tfoperator.api.replicas.names import replica_labels
from tfoperator.api.replicas.progress_names import status_path, token_audience
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.protocol.resources import PODS, SECRETS
from tfoperator.kube.views.objects import decode_pod
from tfoperator.servers.certificates.pem import split
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.progress_server import ProgressConfig, ProgressServer, Surroundings
from tfoperator.servers.progress.report_store import ReportStore
from tfoperator.servers.progress.reports import ProgressReport

NAMESPACE, NAME = "ns", "mnist"
MINE = token_audience(NAMESPACE, NAME)
SERVICE = {"namespace": "system", "service": "progress", "secret": "progress-cert", "url": "https://127.0.0.1:{port}"}
CONFIG = ProgressConfig(host="127.0.0.1", port=0, writes_per_second=50, **SERVICE)


class Counted(ProgressMetrics):
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry, is_leader=lambda: True)

    def count(self, name: str) -> float:
        counter = next(metric for metric in self.registry.collect() if metric.name == name)
        return sum(sample.value for sample in counter.samples if sample.name == f"{name}_total")

    def ratio(self) -> float | None:
        labels = {"job_namespace": NAMESPACE, "job_name": NAME}
        return self.registry.get_sample_value("tfoperator_job_progress_ratio", labels)


class Replica:
    """One replica of the operator, as far as progress is concerned."""

    def __init__(self, api: FakeApi, cluster: Cluster) -> None:
        self.factory = SharedInformerFactory(api)
        jobs, pods = self.factory.informer(TFJOBS, decode_tfjob), self.factory.informer(PODS, decode_pod)
        self.metrics = Counted()
        self.authorities: list[str] = []
        self.reports = ReportStore(SystemClock())
        outside = Surroundings(client=api, jobs=jobs, pods=pods, fetch=cluster.fetch, on_authorities=self._trust)
        self.server = ProgressServer(CONFIG, self.reports, outside, metrics=self.metrics)
        self.jobs, self.pods = jobs, pods

    def _trust(self, url: str, authorities: str) -> None:
        assert url == self.server.url
        self.authorities.append(authorities)

    def start(self) -> None:
        self.factory.start()
        self.factory.wait_for_sync(10.0)
        self.server.start()
        eventually(lambda: self.server.is_ready, what="the certificate")

    def stop(self) -> None:
        self.server.stop()
        self.factory.stop(10.0)

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cadata=self.authorities[-1])
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=10)


class World:
    """An API server with a job of two workers, and replicas of the operator."""

    def __init__(self) -> None:
        self.api, self.cluster = FakeApi(), Cluster()
        self.stack = ExitStack()
        self.add_job(NAME, workers=2)

    def add_job(self, name: str, workers: int = 1, uid: str = "") -> None:
        uid = uid or f"{name}-uid"
        spec = {"tfReplicaSpecs": {"Worker": {"replicas": workers, "template": {}}}}
        self.api.put(TFJOBS, {"metadata": {"namespace": NAMESPACE, "name": name, "uid": uid}, "spec": spec})
        for index in range(workers):
            labels = replica_labels(name, ReplicaType.WORKER, index, is_master=False)
            owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": name, "uid": uid, "controller": True}
            meta = {"namespace": NAMESPACE, "name": f"{name}-worker-{index}", "uid": f"{uid}-worker-{index}"}
            self.api.put(PODS, {"metadata": {**meta, "labels": labels, "ownerReferences": [owner]}})

    def replica(self) -> Replica:
        replica = Replica(self.api, self.cluster)
        self.stack.callback(replica.stop)
        replica.start()
        return replica

    def token(self, name: str = NAME, index: int = 0, uid: str = "") -> str:
        pod = {"name": f"{name}-worker-{index}", "uid": f"{uid or f'{name}-uid'}-worker-{index}"}
        about = {"namespace": NAMESPACE, "pod": pod}
        return self.cluster.token(token_audience(NAMESPACE, name), **{"kubernetes.io": about})

    def progress(self, name: str = NAME) -> dict[str, Any]:
        (job,) = [obj for obj in self.api.objects(TFJOBS, NAMESPACE) if obj["metadata"]["name"] == name]
        progress: dict[str, Any] = job.get("status", {}).get("progress", {})
        return progress

    def wait_percentage(self, percentage: int, name: str = NAME) -> dict[str, Any]:
        eventually(lambda: self.progress(name).get("percentage") == percentage, within=60, what=f"{percentage} %")
        return self.progress(name)


@pytest.fixture
def world() -> Iterator[World]:
    created = World()
    with created.stack:
        yield created


def post(
    replica: Replica, token: str | None, body: Any = None, path: str = "", method: str = "POST"
) -> tuple[int, dict[str, Any]]:
    authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
    sent = body if isinstance(body, bytes) else json.dumps({"trainerStatus": body or {"progressPercentage": 1}})
    with closing(replica.connect()) as connection:
        connection.request(method, path or status_path(NAMESPACE, NAME), sent, authorization)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_a_report_is_answered_and_written_and_says_which_replica_it_is_of(world: World) -> None:
    replica = world.replica()
    world.api.fail("replace", "tfjobs", api_error(500), times=2)  # it is written later
    metrics = [{"name": "loss", "value": "0.5"}, {"name": "current_step", "value": "43"}]
    status, answer = post(replica, world.token(index=1), {"progressPercentage": 43, "metrics": metrics})
    assert (status, answer["trainerStatus"]["progressPercentage"]) == (200, 43)
    progress = world.wait_percentage(43)
    assert (progress["replica"], progress["step"], progress["completion"]) == ("worker-1", 43, "43%")
    eventually(lambda: replica.metrics.ratio() == 0.43, within=60, what="its gauge")
    assert world.cluster.fetched == ["/.well-known/openid-configuration", "/openid/v1/jwks"]


def refused(answer: tuple[int, dict[str, Any]], code: int) -> None:
    status, body = answer
    assert (status, body["kind"], body["apiVersion"], body["code"]) == (code, "Status", "v1", code)
    assert (body["status"], bool(body["message"]), bool(body["reason"])) == ("Failure", True, True)


def test_strangers_are_refused_and_nothing_of_theirs_is_written(world: World) -> None:
    world.add_job("other")
    replica, cluster = world.replica(), world.cluster
    kid = {"alg": "none", "kid": cluster.kid}
    elsewhere = {"namespace": "theirs", "pod": {"name": "mnist-worker-0", "uid": "mnist-worker-0-uid"}}
    gone = {"namespace": NAMESPACE, "pod": {"name": "mnist-worker-0", "uid": "that-of-its-predecessor"}}
    foreign = {"namespace": NAMESPACE, "pod": {"name": "other-worker-0", "uid": "other-worker-0-uid"}}
    strangers: dict[str, str | None] = {
        "nobody": None,
        "no token": "",
        "another job": world.token("other"),
        "a pod of another job with this audience": cluster.token(MINE, **{"kubernetes.io": foreign}),
        "another namespace": cluster.token(MINE, **{"kubernetes.io": elsewhere}),
        "a pod that is gone": cluster.token(MINE, **{"kubernetes.io": gone}),
        "a person": cluster.token(MINE, **{"kubernetes.io": {"namespace": NAMESPACE}}),
        "expired": cluster.token(MINE, exp=int(time.time()) - 60),
        "another cluster": Cluster(kid=cluster.kid).token(MINE),
        "unsigned": forged(kid, cluster.claims(MINE)),
    }
    for who, token in strangers.items():
        answer = post(replica, token)
        assert answer[0] == 403, who
        refused(answer, 403)
    # A client that asks for another's job does not learn whether it exists.
    answers = [post(replica, world.token(), path=status_path(NAMESPACE, name)) for name in ("other", "none")]
    assert answers[0] == answers[1]
    refused(answers[0], 403)
    assert post(replica, world.token(), {"progressPercentage": 7})[0] == 200
    world.wait_percentage(7)
    assert world.progress("other") == {}
    assert replica.metrics.count("tfoperator_progress_reports") == 1
    assert replica.metrics.count("tfoperator_progress_refusals") == len(strangers) + 2


def test_what_is_no_report_is_refused_with_a_status(world: World) -> None:
    replica, token = world.replica(), world.token()
    refused(post(replica, world.token("gone"), path=status_path(NAMESPACE, "gone")), 404)
    refused(post(replica, token, path="/"), 404)
    refused(post(replica, token, path=status_path(NAMESPACE, "..")), 403)
    refused(post(replica, token, {"progressPercentage": 101}), 422)
    refused(post(replica, token, b"{"), 422)
    refused(post(replica, token, b"[" * 50_000), 422)
    refused(post(replica, token, {"x": "y" * (64 << 10)}), 413)
    refused(post(replica, token, method="GET"), 405)
    assert replica.metrics.count("tfoperator_progress_reports") == 0


def test_the_status_that_others_write_meanwhile_stays(world: World) -> None:
    replica = world.replica()
    world.api.mute("tfjobs")  # the cache does not hear of it yet
    world.api.edit(TFJOBS, NAMESPACE, NAME, {"status": {"phase": "Running"}})
    assert post(replica, world.token(), {"progressPercentage": 12})[0] == 200
    eventually(lambda: world.api.count("replace", "tfjobs") > 0, within=60, what="an attempt")
    assert world.progress() == {}
    world.api.unmute()
    world.api.edit(TFJOBS, NAMESPACE, NAME, {"metadata": {"labels": {"touched": "yes"}}})
    world.wait_percentage(12)
    (job,) = world.api.objects(TFJOBS, NAMESPACE)
    assert job["status"]["phase"] == "Running"


def test_two_replicas_of_the_operator_share_a_certificate_and_come_to_one_status(world: World) -> None:
    first, second = world.replica(), world.replica()
    assert len(world.api.objects(SECRETS, "system")) == 1
    assert set(split(first.authorities[-1].encode())) & set(split(second.authorities[-1].encode()))
    for percentage in range(1, 21):
        replica, other = (first, second) if percentage % 2 else (second, first)
        assert post(replica, world.token(index=0), {"progressPercentage": percentage})[0] == 200
        assert post(other, world.token(index=1), {"progressPercentage": max(0, percentage - 5)})[0] == 200
    progress = world.wait_percentage(20)
    assert progress["replica"] == "worker-0"
    eventually(lambda: len(world.progress()["behind"]) == 2, within=60, what="both replicas are known")


def test_what_has_come_is_written_before_an_orderly_end(world: World) -> None:
    replica = world.replica()
    for percentage in (1, 2, 3):  # the second and third wait for their turn
        assert post(replica, world.token(), {"progressPercentage": percentage})[0] == 200
    replica.server.stop()
    assert world.progress()["percentage"] == 3


def test_a_job_that_is_made_anew_has_its_own_progress(world: World) -> None:
    replica = world.replica()
    post(replica, world.token(), {"progressPercentage": 80})
    world.wait_percentage(80)
    job = replica.jobs.lister.find(f"{NAMESPACE}/{NAME}")
    world.api.remove(TFJOBS, NAMESPACE, NAME)
    eventually(lambda: not replica.server._store._reports, within=60, what="the job is forgotten")
    replica.server._take(job, ProgressReport("worker-0", datetime.now(UTC), percentage=1))  # came while it went
    assert replica.server._store._reports == {}
    world.add_job(NAME, uid="its-successor", workers=0)

    def seen(pods: int) -> bool:
        jobs, listed = replica.jobs.lister.list(NAMESPACE), replica.pods.lister.list(NAMESPACE)
        owned = [pod for pod in listed if pod.metadata.is_controlled_by("its-successor")]
        return len(owned) == pods and [job.metadata.uid for job in jobs] == ["its-successor"]

    eventually(lambda: seen(0), within=60, what="the cache shows the new job")
    # A program of the old job, which is on its way out, has a token for a job of this name.
    assert post(replica, world.token(), {"progressPercentage": 90})[0] == 403
    for pod in world.api.objects(PODS, NAMESPACE):
        world.api.remove(PODS, NAMESPACE, pod["metadata"]["name"])
    world.api.remove(TFJOBS, NAMESPACE, NAME)
    world.add_job(NAME, workers=2, uid="its-successor")
    eventually(lambda: seen(2), within=60, what="the cache shows the new job's pods")
    assert post(replica, world.token(), {"progressPercentage": 90})[0] == 403
    own = world.token(uid="its-successor")
    assert post(replica, own, {"metrics": [{"name": "loss", "value": "9"}]})[0] == 200
    eventually(lambda: world.progress().get("metrics"), within=60, what="the new job's report")
    assert "percentage" not in world.progress()


def test_many_jobs_cost_no_more_writes_than_the_budget_and_each_ends_with_its_last_report(world: World) -> None:
    names = [f"job-{i}" for i in range(20)]
    for name in names:
        world.add_job(name)
    replica = world.replica()
    eventually(lambda: len(replica.pods.lister.list(NAMESPACE)) == 22, within=60)
    began = time.monotonic()

    def rounds(mine: list[str]) -> None:
        for percentage in (10, 20, 30):
            for name in mine:
                path = status_path(NAMESPACE, name)
                assert post(replica, world.token(name), {"progressPercentage": percentage}, path)[0] == 200

    run_at_once(*(lambda part=names[i::3]: rounds(part) for i in range(3)), within=120.0)
    for name in names:
        world.wait_percentage(30, name)
    writes, seconds = world.api.count("replace", "tfjobs"), time.monotonic() - began
    assert writes <= CONFIG.writes_per_second * seconds + 6
    assert replica.metrics.count("tfoperator_progress_reports") == 3 * len(names)


def test_what_a_pods_output_says_counts_until_its_program_reports(world: World) -> None:
    replica = world.replica()
    observed = ProgressReport(replica="", time=datetime.now(UTC).replace(microsecond=0), percentage=30)
    replica.server.observe(f"{NAMESPACE}/none-such", observed)
    replica.server.observe(f"{NAMESPACE}/{NAME}-worker-0", observed)
    assert world.wait_percentage(30)["replica"] == "worker-0"
    assert post(replica, world.token(), {"progressPercentage": 50})[0] == 200
    replica.server.observe(f"{NAMESPACE}/{NAME}-worker-0", observed)
    (job,) = replica.jobs.lister.list()
    assert replica.reports.progress_of(job).percentage == 50
