"""The jobs that the Go operator's users have, applied unchanged with kubectl: they find what they know."""

from pathlib import Path

import pytest
import yaml

from hack.controlplane import ControlPlane
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster, Operated
from tfoperator.api import validate_manifest

pytestmark = pytest.mark.controlplane

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "peer"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.yaml"))


class User:
    """Somebody with kubectl, in the namespace that the operator looks after."""

    def __init__(self, plane: ControlPlane, operated: Operated) -> None:
        self._kubectl = Kubectl(plane.kubeconfig, operated.cluster.namespace)
        self._cluster = operated.cluster

    def kubectl(self, *arguments: str) -> str:
        done = self._kubectl.run(*arguments)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr, done.stderr
        return done.stdout

    def apply(self, example: str, job: str) -> JobOnCluster:
        self.kubectl("apply", "--filename", str(EXAMPLES / example))
        return JobOnCluster(self._cluster, self._cluster.job(job))


@pytest.fixture
def user(plane: ControlPlane, operated: Operated) -> User:
    return User(plane, operated)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_an_example(name: str) -> None:
    jobs = [document for document in yaml.safe_load_all((EXAMPLES / name).read_text()) if document["kind"] == "TFJob"]
    assert [problem for job in jobs for problem in validate_manifest(job)] == []
    assert len(jobs) == 1


def test_two_workers_that_are_started_again_on_failure(operated: Operated, user: User) -> None:
    job = user.apply("two-workers.yaml", "tfjob-simple")
    pods = job.wait_pods("worker-0", "worker-1")
    assert {pod["spec"]["restartPolicy"] for pod in pods.values()} == {"OnFailure"}
    hosts = [f"tfjob-simple-worker-{i}.{operated.cluster.namespace}.svc:2222" for i in range(2)]
    assert job.tf_config("worker-1") == {
        "cluster": {"worker": hosts},
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    job.play("Running", "worker-0", "worker-1", leads_to="Running")
    assert user.kubectl("get", "tfjobs", "tfjob-simple", "--no-headers").split()[:2] == ["tfjob-simple", "Running"]
    job.play("Succeeded", "worker-0", "worker-1")
    user.kubectl("wait", "--for=condition=Succeeded", "tfjob/tfjob-simple", "--timeout=60s")


def test_a_chief_a_parameter_server_and_two_workers(operated: Operated, user: User) -> None:
    job = user.apply("dist-mnist.yaml", "dist-mnist-for-e2e-test")
    replicas = ("chief-0", "ps-0", "worker-0", "worker-1")
    job.wait_pods(*replicas)
    job.wait_services(*replicas)
    domain = f"{operated.cluster.namespace}.svc:2222"
    for replica in replicas:
        kind, _, index = replica.partition("-")
        config = job.tf_config(replica)
        assert config is not None
        assert config["task"] == {"type": kind, "index": int(index)}
        assert config["cluster"] == {
            "chief": [f"dist-mnist-for-e2e-test-chief-0.{domain}"],
            "ps": [f"dist-mnist-for-e2e-test-ps-0.{domain}"],
            "worker": [f"dist-mnist-for-e2e-test-worker-{i}.{domain}" for i in range(2)],
        }
    selector = "training.kubeflow.org/job-name=dist-mnist-for-e2e-test,training.kubeflow.org/job-role=master"
    assert user.kubectl("get", "pods", "--selector", selector, "--output=name").split() == [
        "pod/dist-mnist-for-e2e-test-chief-0"
    ]
    job.play("Running", *replicas, leads_to="Running")
    job.play("Succeeded", "worker-0", "worker-1")
    operated.settle()
    assert job.state() == "Running", "the chief decides"
    job.play("Succeeded", "chief-0", leads_to="Succeeded")
    operated.settle()
    assert set(job.pods()) == set(replicas), "None, the default, leaves the parameter server, as in the Go operator"


def test_applying_an_example_again_changes_nothing(operated: Operated, user: User) -> None:
    job = user.apply("multi-worker.yaml", "multi-worker")
    uids = {replica: pod["metadata"]["uid"] for replica, pod in job.wait_pods("worker-0", "worker-1").items()}
    generation = job.get()["metadata"]["generation"]
    assert "tfjob.kubeflow.org/multi-worker unchanged" in user.kubectl(
        "apply", "--filename", str(EXAMPLES / "multi-worker.yaml")
    )
    operated.settle()
    assert job.get()["metadata"]["generation"] == generation
    assert {replica: pod["metadata"]["uid"] for replica, pod in job.pods().items()} == uids
