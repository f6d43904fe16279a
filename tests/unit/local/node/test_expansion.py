from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.views.pod_spec import FieldRef
from tfoperator.local.node.expansion import (
    ContainerConfigError,
    ObjectData,
    command_line,
    environment,
    expand,
    field_value,
)
from tfoperator.local.runtime.protocol import LaunchError
from tfoperator.local.usage import Machine


def variables(spec: dict[str, Any], data: Any = None, *others: dict[str, Any], **options: Any) -> dict[str, str]:
    """The environment of the first container of a pod on the node `here`."""
    pod = view(manifest("p", spec, *others, nodeName="here"))

    def sources(kind: str, name: str) -> ObjectData | None:
        found = (data or {}).get((kind, name))
        return found if found is None or isinstance(found, ObjectData) else ObjectData(found)

    return environment(pod, pod.spec.containers[0], sources, **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        *((text, text) for text in ("no variable", "$(UNKNOWN)", "$A", "$(A", "$", "$()", "$($(A))")),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
    ],
)
def test_variables_are_expanded_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_a_variable_sees_those_before_it_and_a_container_without_command_has_no_command_line() -> None:
    values = {"FIRST": "1", "SECOND": "$(FIRST)$(THIRD)", "THIRD": "3"}
    env = [{"name": name, "value": value} for name, value in values.items()]
    assert variables(container(env=env)) == values | {"SECOND": "1$(THIRD)"}
    for fields, words in (({}, ()), ({"command": ["run", "$(A)"]}, ("run", "1", "--x=1"))):
        pod = view(manifest("p", container(args=["--x=$(A)"], **fields)))
        assert command_line(pod.spec.containers[0], {"A": "1"}) == words


def test_fields_of_the_pod_config_maps_and_secrets_become_variables_and_env_wins_over_env_from() -> None:
    values = {
        "metadata.name": "p",
        "metadata.namespace": "ns",
        "metadata.labels['role']": "worker",
        "metadata.labels['app.kubernetes.io/name']": "x",
        "metadata.annotations['none']": "",
        "status.podIP": "127.0.0.1",
        "spec.nodeName": "here",
    }
    env = [{"name": f"V{n}", "valueFrom": {"fieldRef": {"fieldPath": path}}} for n, path in enumerate(values)]
    assert list(variables(container(env=env)).values()) == list(values.values())
    data = {("ConfigMap", "settings"): {"A": b"from map", "B": b"b"}, ("Secret", "keys"): {"TOKEN": b"s3cret"}}
    spec = container(
        envFrom=[{"prefix": "X_", "secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}],
        env=[
            {"name": "A", "value": "from env"},
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
            {"name": "O", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "K", "optional": True}}},
        ],
    )
    assert variables(spec, data) == {"A": "from env", "B": "b", "X_TOKEN": "s3cret", "T": "s3cret"}


def test_a_variable_gets_no_value_from_the_binary_data_of_a_config_map() -> None:
    data = {("ConfigMap", "settings"): ObjectData({"A": b"a"}, {"blob": b"\0\1"})}
    assert variables(container(envFrom=[{"configMapRef": {"name": "settings"}}]), data) == {"A": "a"}
    for optional in (True, False):
        reference = {"configMapKeyRef": {"name": "settings", "key": "blob", "optional": optional}}
        spec = container(env=[{"name": "V", "valueFrom": reference}])
        if optional:
            assert variables(spec, data) == {}
        else:
            with pytest.raises(ContainerConfigError, match="ConfigMap 'settings' has no key 'blob'"):
                variables(spec, data)


def test_annotations_in_a_file_are_quoted_as_go_quotes_them() -> None:
    body = manifest("p", container())
    body["metadata"]["annotations"] = {"b": 'say "hi"\n\ttwice \\ é\x7f\x01\u200b\U000e0001', "a": ""}
    assert field_value(view(body), FieldRef("metadata.annotations")) == (
        'a=""\nb="say \\"hi\\"\\n\\ttwice \\\\ é\\x7f\\x01\\u200b\\U000e0001"'
    )


LIMITS = {"limits": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 1}, "requests": {"cpu": "250m"}}


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "requests.cpu", "divisor": 0}, "1"),
        ({"resource": "limits.memory"}, str(1 << 30)),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.memory", "divisor": "1G"}, "2"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
        ({"resource": "limits.cpu", "containerName": "half"}, "1"),
        ({"resource": "limits.cpu", "divisor": 0.5}, "3"),
        ({"resource": "limits.cpu", "containerName": "side"}, "6"),
        ({"resource": "limits.memory", "containerName": "side"}, "8000"),
    ],
)
def test_a_variable_has_a_limit_or_request_in_units_of_the_divisor_as_with_the_kubelet(
    reference: dict[str, object], value: str
) -> None:
    env = [{"name": "V", "valueFrom": {"resourceFieldRef": reference}}]
    others = container("side"), container("half", resources={"limits": {"cpu": 0.5}})
    spec = container(env=env, resources=LIMITS)
    assert variables(spec, None, *others, machine=Machine(cpus=6, memory=8000)) == {"V": value}


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "K"}}, ContainerConfigError, "ConfigMap 'none' not found"),
        ({"secretKeyRef": {"name": "keys", "key": "K"}}, ContainerConfigError, "Secret 'keys' has no key 'K'"),
        ({"fieldRef": {"fieldPath": "spec.nonsense"}}, LaunchError, "spec.nonsense"),
        ({"resourceFieldRef": {"resource": "limits.nvidia.com/gpu"}}, LaunchError, "env V of .* 'tensorflow'.*ephem"),
        ({"resourceFieldRef": {"resource": "cpu"}}, LaunchError, "must be limits.NAME or requests.NAME, with NAME cpu"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "containerName": "x"}}, LaunchError, "no container 'x'"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "a"}}, LaunchError, "must be a quantity"),
        ({"fileKeyRef": {"path": "p"}}, LaunchError, "this kind of valueFrom is not supported locally"),
    ],
)
def test_what_is_missing_is_waited_for_and_what_can_never_have_a_value_is_not(
    source: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        variables(container(env=[{"name": "V", "valueFrom": source}], resources=LIMITS), {("Secret", "keys"): {}})
