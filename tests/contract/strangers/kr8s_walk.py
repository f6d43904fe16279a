"""kr8s, as its documentation has it: `python kr8s_walk.py NAMESPACE`, with KUBECONFIG set. A step that fails raises."""

import sys
import time

import kr8s
from kr8s.objects import ConfigMap, Deployment, Pod, new_class

NAMESPACE = sys.argv[1]

TFJob = new_class("TFJob", "kubeflow.org/v1", namespaced=True, plural="tfjobs")
CONTAINER = {
    "image": "example.invalid/x:1",
    "command": ["sh", "-c", "for word in one two; do echo $word; sleep 0.3; done"],
}


def server() -> None:
    """Check the server's version and kinds."""
    api = kr8s.api()
    assert api.version()["major"] == "1"
    assert {"pods", "tfjobs"} <= {resource["name"] for resource in api.api_resources()}
    assert api.whoami()


def pods() -> None:
    """A pod is created, waited for, found, followed and deleted."""
    containers = [{"name": "main", **CONTAINER}]
    pod = Pod(
        {
            "metadata": {"name": "kr8s", "namespace": NAMESPACE, "labels": {"app": "kr8s"}},
            "spec": {"restartPolicy": "Never", "containers": containers},
        }
    )
    pod.create()
    pod.wait(["condition=Ready", "jsonpath='{.status.phase}'=Succeeded"], mode="any", timeout=60)
    assert [listed.name for listed in kr8s.get("pods", namespace=NAMESPACE, label_selector={"app": "kr8s"})] == ["kr8s"]
    assert list(pod.logs(follow=True)) == ["one", "two"]
    pod.label(a="b")
    pod.annotate({"c": "d"})
    pod.refresh()
    assert (pod.labels["a"], pod.annotations["c"]) == ("b", "d")
    pod.delete()
    pod.wait("delete", timeout=60)
    assert not pod.exists()


def jobs() -> None:
    """A TFJob, which kr8s has never heard of."""
    template = {"spec": {"containers": [{"name": "tensorflow", **CONTAINER}]}}
    job = TFJob(
        {
            "metadata": {"name": "kr8s-job", "namespace": NAMESPACE},
            "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
        }
    )
    job.create()
    deadline = time.monotonic() + 60
    while "status" not in job.raw:  # kr8s can't wait for a condition before an object has a status
        assert time.monotonic() < deadline
        time.sleep(0.1)
        job.refresh()
    job.wait("condition=Succeeded", timeout=60)
    assert [tfjob.name for tfjob in kr8s.get("tfjobs", namespace=NAMESPACE)] == ["kr8s-job"]
    job.patch({"metadata": {"labels": {"tier": "one"}}})
    assert TFJob.get("kr8s-job", namespace=NAMESPACE).labels["tier"] == "one"
    job.delete()


def watches() -> None:
    """A watch from now on."""
    made = ConfigMap({"metadata": {"name": "seen", "namespace": NAMESPACE}, "data": {"a": "b"}})
    made.create()
    for event, config_map in kr8s.watch("configmaps", namespace=NAMESPACE):
        if config_map.name == "seen":
            assert event == "ADDED"
            break
    made.delete()


def deployments() -> None:
    """A Deployment is scaled."""
    labels = {"app": "scaled"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", **CONTAINER}]}}
    deployment = Deployment(
        {
            "metadata": {"name": "scaled", "namespace": NAMESPACE},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
        }
    )
    deployment.create()
    deployment.patch({"spec": {"replicas": 2}}, subresource="scale")
    deployment.refresh()
    assert deployment.replicas == 2
    deployment.delete()


if __name__ == "__main__":
    for step in (server, pods, jobs, watches, deployments):
        step()
        print(step.__name__, flush=True)
