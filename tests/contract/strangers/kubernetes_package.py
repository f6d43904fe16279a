"""The official Python client, as people use it: `python kubernetes_package.py NAMESPACE`, with KUBECONFIG set.

Run by the tests under more than one release of the package, each in its own interpreter. A step that fails raises.
"""

import sys
from typing import Any

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException

NAMESPACE = sys.argv[1]

TFJOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "tfReplicaSpecs": {
            "Worker": {
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "tensorflow", "image": "example.invalid/x:1"}]}},
            }
        }
    },
}
CUSTOM = ("kubeflow.org", "v1", NAMESPACE, "tfjobs")


def pod(name: str, script: str) -> client.V1Pod:
    """A pod of typed models."""
    container = client.V1Container(name="main", image="example.invalid/x:1", command=["sh", "-c", script])
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"who": name}),
        spec=client.V1PodSpec(restart_policy="Never", containers=[container]),
    )


def documents() -> None:
    """Check the server's descriptions of itself."""
    assert client.VersionApi().get_code().major == "1"
    assert client.CoreApi().get_api_versions().versions == ["v1"]
    assert "kubeflow.org" in [group.name for group in client.ApisApi().get_api_versions().groups]
    assert "pods" in [resource.name for resource in client.CoreV1Api().get_api_resources().resources]
    attributes = client.V1ResourceAttributes(verb="create", resource="pods", namespace=NAMESPACE)
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api().create_self_subject_access_review(review).status.allowed


def objects() -> None:
    """Create, read, patch, replace, conflict and delete, with models and with dictionaries."""
    api = client.CoreV1Api()
    made = api.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "settings"}, "data": {"a": "b"}})
    assert made.metadata.creation_timestamp is not None
    patched = api.patch_namespaced_config_map("settings", NAMESPACE, {"data": {"c": "d"}})
    assert patched.data == {"a": "b", "c": "d"}
    changed = api.read_namespaced_config_map("settings", NAMESPACE)
    changed.data = {"e": "f"}
    assert api.replace_namespaced_config_map("settings", NAMESPACE, changed).data == {"e": "f"}
    assert refused(409, lambda: api.replace_namespaced_config_map("settings", NAMESPACE, changed))
    assert [
        item.metadata.name for item in api.list_namespaced_secret(NAMESPACE, field_selector="type=none").items
    ] == []
    api.delete_namespaced_config_map("settings", NAMESPACE)
    assert refused(404, lambda: api.read_namespaced_config_map("settings", NAMESPACE))
    utils.create_from_dict(
        client.ApiClient(), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, namespace=NAMESPACE
    )
    assert api.read_namespaced_secret("s", NAMESPACE).type == "Opaque"


def refused(code: int, call: Any) -> bool:
    """Whether the server answers with this code."""
    try:
        call()
    except ApiException as error:
        return bool(error.status == code)
    return False


def deployments() -> None:
    """A Deployment of models, and its scale."""
    api, labels = client.AppsV1Api(), {"app": "web"}
    template = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=pod("web", "sleep 1").spec)
    template.spec.restart_policy = "Always"
    spec = client.V1DeploymentSpec(replicas=0, selector=client.V1LabelSelector(match_labels=labels), template=template)
    api.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    scale = api.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    assert (scale.spec.replicas, scale.status.selector) == (3, "app=web")
    assert api.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 3
    api.delete_namespaced_deployment("web", NAMESPACE)


def logs() -> None:
    """A pod is watched until it has ended; its log is followed while it runs, and read in the end."""
    api = client.CoreV1Api()
    api.create_namespaced_pod(NAMESPACE, pod("talks", "for word in one two three; do echo $word; sleep 0.3; done"))
    phases = []
    until_running = watch.Watch()
    for event in until_running.stream(
        api.list_namespaced_pod, NAMESPACE, label_selector="who=talks", timeout_seconds=60
    ):
        phases.append(event["object"].status.phase)
        if phases[-1] != "Pending":
            until_running.stop()
    assert phases[-1] in ("Running", "Succeeded"), phases
    followed = watch.Watch().stream(api.read_namespaced_pod_log, name="talks", namespace=NAMESPACE)
    assert list(followed) == ["one", "two", "three"]
    until_over = watch.Watch()
    for event in until_over.stream(
        api.list_namespaced_pod, NAMESPACE, field_selector="metadata.name=talks", timeout_seconds=60
    ):
        if event["object"].status.phase == "Succeeded":
            until_over.stop()
            state = event["object"].status.container_statuses[0].state.terminated
            assert (state.exit_code, state.started_at is None) == (0, False)
            break
    else:
        raise AssertionError("the pod's end was not seen")
    assert api.read_namespaced_pod_log("talks", NAMESPACE, tail_lines=1).rstrip() == "three"


def custom_objects() -> None:
    """TFJobs through the API for custom objects: the way of most programs."""
    api = client.CustomObjectsApi()
    made = api.create_namespaced_custom_object(*CUSTOM, {**TFJOB, "spec": {**TFJOB["spec"], **SUSPENDED}})
    assert made["spec"]["runPolicy"]["suspend"] is True
    patch = {"metadata": {"labels": {"tier": "one"}}}
    assert api.patch_namespaced_custom_object(*CUSTOM, "mnist", patch)["metadata"]["labels"] == {"tier": "one"}
    assert len(api.list_namespaced_custom_object(*CUSTOM, label_selector="tier=one")["items"]) == 1
    watcher = watch.Watch()
    for event in watcher.stream(api.list_namespaced_custom_object, *CUSTOM, timeout_seconds=60):
        if event["object"]["metadata"]["name"] == "mnist":
            watcher.stop()
            assert event["type"] == "ADDED"
            break
    else:
        raise AssertionError("the job was not seen")
    api.patch_namespaced_custom_object_scale(*CUSTOM, "mnist", {"spec": {"replicas": 1}})
    assert api.get_namespaced_custom_object_scale(*CUSTOM, "mnist")["spec"]["replicas"] == 1
    assert api.delete_namespaced_custom_object(*CUSTOM, "mnist")["status"] == "Success"


SUSPENDED = {"runPolicy": {"suspend": True}}


def dynamic_client() -> None:
    """The dynamic client, which discovers what there is."""
    discovered = dynamic.DynamicClient(client.ApiClient())
    jobs = discovered.resources.get(api_version="kubeflow.org/v1", kind="TFJob")
    body = {**TFJOB, "metadata": {"name": "dynamic"}, "spec": {**TFJOB["spec"], **SUSPENDED}}
    assert jobs.create(namespace=NAMESPACE, body=body).metadata.name == "dynamic"
    assert any(event["object"].metadata.name == "dynamic" for event in jobs.watch(namespace=NAMESPACE, timeout=60))
    change = {"metadata": {"annotations": {"a": "b"}}}
    merge = "application/merge-patch+json"
    assert (
        jobs.patch(name="dynamic", namespace=NAMESPACE, body=change, content_type=merge).metadata.annotations.a == "b"
    )
    jobs.delete(name="dynamic", namespace=NAMESPACE)
    maps = discovered.resources.get(api_version="v1", kind="ConfigMap")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
    for value in ("b", "c"):
        applied["data"] = {"a": value}
        maps.server_side_apply(applied, namespace=NAMESPACE, field_manager="stranger")
    assert maps.get(name="applied", namespace=NAMESPACE).data.a == "c"


if __name__ == "__main__":
    config.load_kube_config()
    for step in (documents, objects, deployments, logs, custom_objects, dynamic_client):
        step()
        print(step.__name__, flush=True)
