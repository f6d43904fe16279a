from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.node.expansion import ContainerConfigError, command_line, environment, expand


def nothing(kind: str, name: str) -> None:
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("$$", "$"),
        ("$()", "$()"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_variables_are_expanded_as_in_kubernetes(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@given(st.text())
def test_text_without_a_dollar_sign_is_left_alone(text: str) -> None:
    plain = text.replace("$", "")
    assert expand(plain, {"A": "1"}) == plain


def test_a_variable_sees_those_before_it_and_not_those_after() -> None:
    env = [
        {"name": "FIRST", "value": "1"},
        {"name": "SECOND", "value": "$(FIRST)$(THIRD)"},
        {"name": "THIRD", "value": "3"},
    ]
    pod = view(manifest("p", container(env=env)))
    assert environment(pod, pod.spec.containers[0], nothing)["SECOND"] == "1$(THIRD)"


def test_fields_of_the_pod_become_variables() -> None:
    paths = {
        "NAME": "metadata.name",
        "NAMESPACE": "metadata.namespace",
        "ROLE": "metadata.labels['role']",
        "APP": "metadata.labels['app.kubernetes.io/name']",
        "ABSENT": "metadata.annotations['none']",
        "IP": "status.podIP",
        "NODE": "spec.nodeName",
    }
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]
    pod = view(manifest("p", container(env=env), nodeName="here"))
    assert environment(pod, pod.spec.containers[0], nothing) == {
        "NAME": "p",
        "NAMESPACE": "ns",
        "ROLE": "worker",
        "APP": "x",
        "ABSENT": "",
        "IP": "127.0.0.1",
        "NODE": "here",
    }


def test_config_maps_and_secrets_become_variables_and_env_wins_over_env_from() -> None:
    data = {("ConfigMap", "settings"): {"A": b"from map", "B": b"b"}, ("Secret", "keys"): {"TOKEN": b"s3cret"}}
    spec = container(
        envFrom=[{"prefix": "X_", "secretRef": {"name": "keys"}}, {"configMapRef": {"name": "settings"}}],
        env=[
            {"name": "A", "value": "from env"},
            {"name": "T", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
            {"name": "O", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "K", "optional": True}}},
        ],
    )
    pod = view(manifest("p", spec))
    result = environment(pod, pod.spec.containers[0], lambda kind, name: data.get((kind, name)))
    assert result == {"A": "from env", "B": "b", "X_TOKEN": "s3cret", "T": "s3cret"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "K"}}, "ConfigMap 'none' not found"),
        ({"secretKeyRef": {"name": "keys", "key": "K"}}, "Secret 'keys' has no key 'K'"),
        ({"fieldRef": {"fieldPath": "spec.nonsense"}}, "spec.nonsense"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "env V of container 'tensorflow'"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, object], words: str) -> None:
    pod = view(manifest("p", container(env=[{"name": "V", "valueFrom": source}])))
    with pytest.raises(ContainerConfigError, match=words):
        environment(pod, pod.spec.containers[0], lambda kind, name: {} if name == "keys" else None)


def test_a_container_without_command_has_no_command_line_even_with_arguments() -> None:
    pod = view(manifest("p", container(args=["--x"])))
    assert command_line(pod.spec.containers[0], {}) == ()
    pod = view(manifest("p", container(command=["run", "$(A)"], args=["--x=$(A)"])))
    assert command_line(pod.spec.containers[0], {"A": "1"}) == ("run", "1", "--x=1")
