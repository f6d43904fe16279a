from typing import Any

import pytest

from tfoperator.launcher import KubernetesPodPlatformConfig, PlatformConfigError
from tfoperator.launcher.platforms.kubernetes.layers import BASE, MergedPod, merge_layers

Json = dict[str, Any]


def base(**main: Any) -> Json:
    container = {"name": "main", "image": "tensorflow/tensorflow:v1.13", "command": ["python", "-c", "ml/app.py"]}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container | main]}}


def merged(*specs: Json, below: Json | None = None) -> MergedPod:
    config = KubernetesPodPlatformConfig()
    for number, spec in enumerate(specs):
        config = config.merge(KubernetesPodPlatformConfig(spec).named(("default config", "config of step")[number]))
    return merge_layers(below or base(), config.layers)


def main_of(pod: Json) -> Json:
    (container,) = [c for c in pod["spec"]["containers"] if c["name"] == "main"]
    return dict(container)


def on_main(**fields: Any) -> Json:
    return {"containers": [{"name": "main", **fields}]}


def test_the_designs_own_example() -> None:
    limits = {"limits": {"memory": "128Mi", "cpu": "500m"}}
    result = merged(
        {"serviceAccountName": "PipelineRunner", **on_main(resources=limits)},
        on_main(env=[{"name": "MYSQL_ROOT_PASSWORD", "value": "password"}]),
    )
    expected = base(resources=limits, env=[{"name": "MYSQL_ROOT_PASSWORD", "value": "password"}])
    expected["spec"]["serviceAccountName"] = "PipelineRunner"
    assert result.pod == expected
    assert result.origins["spec.containers[main].image"] == BASE
    assert result.origins["spec.containers[main].resources.limits.cpu"] == "default config"
    assert result.origins["spec.serviceAccountName"] == "default config"
    assert result.origins["spec.containers[main].env[MYSQL_ROOT_PASSWORD].value"] == "config of step"


def test_who_changes_a_value_is_its_origin_and_who_repeats_it_is_not() -> None:
    first = on_main(imagePullPolicy="Always", resources={"limits": {"cpu": "1"}})
    origins = merged(first, on_main(imagePullPolicy="Always", resources={"limits": {"cpu": "2"}})).origins
    assert origins["spec.containers[main].imagePullPolicy"] == "default config"
    assert origins["spec.containers[main].resources.limits.cpu"] == "config of step"


def test_falsy_values_count_null_removes_and_merging_changes_no_layer() -> None:
    pod = merged(
        {"hostNetwork": True, "priority": 5, "nodeName": "n", **on_main(tty=True)},
        {"hostNetwork": False, "priority": 0, "nodeName": None, **on_main(tty=False, args=[])},
    ).pod
    assert (pod["spec"]["hostNetwork"], pod["spec"]["priority"]) == (False, 0)
    assert "nodeName" not in pod["spec"]
    assert (main_of(pod)["tty"], main_of(pod)["args"]) == (False, [])
    below, config = base(), KubernetesPodPlatformConfig(on_main(env=[{"name": "A", "value": "1"}]))
    first = merge_layers(below, config.layers)
    first.pod["spec"]["containers"][0]["env"].append("scribble")
    assert merge_layers(below, config.layers).pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert below == base()


def test_another_source_of_a_volume_or_variable_replaces_the_first_and_the_same_is_merged() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    memory, limited = ({"name": "same", "emptyDir": more} for more in ({"medium": "Memory"}, {"sizeLimit": "1Gi"}))
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    pod = merged(
        {"volumes": [claim, memory], **on_main(env=[{"name": "E", "value": "1"}])},
        {"volumes": [{"name": "v", "emptyDir": {}}, limited], **on_main(env=[{"name": "E", "valueFrom": secret}])},
    ).pod
    both = {"name": "same", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}, both]
    assert main_of(pod)["env"] == [{"name": "E", "valueFrom": secret}]


def test_what_is_there_keeps_its_place_unless_a_layer_says_the_order_itself_or_uses_directives() -> None:
    variables = [{"name": "B", "value": "1"}, {"name": "A", "value": "$(B)"}]
    pod = merged(
        {"containers": [{"name": "sidecar", "image": "s"}, {"name": "main", "env": variables}]},
        on_main(env=[{"name": "C", "value": "$(A)"}, {"name": "A", "value": "2"}]),
    ).pod
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main", "sidecar"]
    assert [variable["name"] for variable in main_of(pod)["env"]] == ["B", "A", "C"]
    order = {"$setElementOrder/containers": [{"name": "sidecar"}, {"name": "main"}]}
    pod = merged({"containers": [{"name": "sidecar", "image": "s"}], "hostNetwork": True}, {**order}).pod
    assert [c["name"] for c in pod["spec"]["containers"]] == ["sidecar", "main"]
    pod = merged(
        {"containers": [{"name": "sidecar", "image": "s"}], "volumes": [{"name": "v", "emptyDir": {}}]},
        {"containers": [{"name": "sidecar", "$patch": "delete"}], "volumes": [{"name": "v", "$patch": "delete"}]},
    ).pod
    assert [c["name"] for c in pod["spec"]["containers"]] == ["main"]
    assert pod["spec"]["volumes"] == []


def test_merges_that_would_lose_something_or_can_not_be_done_are_refused() -> None:
    tcp, udp = {"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}
    zone = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    for first, second in (
        (on_main(ports=[tcp, udp]), {}),
        (on_main(ports=[tcp]), on_main(ports=[udp])),
        ({"topologySpreadConstraints": [zone, {**zone, "whenUnsatisfiable": "ScheduleAnyway"}]}, {}),
        ({"topologySpreadConstraints": [zone]}, {"topologySpreadConstraints": [{**zone, "whenUnsatisfiable": "x"}]}),
    ):
        with pytest.raises(PlatformConfigError, match="would be lost"):
            merged(first, second)
    named = merged(on_main(ports=[tcp]), on_main(ports=[{**tcp, "name": "dns"}]))
    assert main_of(named.pod)["ports"] == [{"containerPort": 53, "name": "dns"}]
    with pytest.raises(PlatformConfigError, match=r"config of step: spec.containers: each item must have 'name'"):
        merged({}, {"containers": [{"image": "x"}]})
