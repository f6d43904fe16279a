from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.controller import SchedulingRules
from tfoperator.controller.pods.scheduling_rules import AllowedNames
from tfoperator.operator.options.pod_settings import parse_accelerators, parse_scheduling
from tfoperator.operator.options.reading import parse_options
from tfoperator.operator.options.settings import OptionsError

GPU = "nvidia.com/gpu"
EXAMPLE = Path(__file__).parents[4] / "examples" / "accelerators" / "operator.yaml"
VOLUME = {"name": "v", "hostPath": {"path": "/opt"}}
MOUNT = {"name": "v", "mountPath": "/x"}


def test_the_example_is_read() -> None:
    accelerator = parse_options([f"--config={EXAMPLE}"], {}).accelerators[GPU]
    assert accelerator.volumes[0]["hostPath"]["path"] == "/home/kubernetes/bin/nvidia"
    assert accelerator.volume_mounts[0]["mountPath"] == "/usr/local/nvidia"
    assert accelerator.env == ({"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"},)


def test_nothing_is_needed_and_nothing_is_a_flag() -> None:
    assert parse_accelerators(None) == parse_accelerators({}) == {}
    assert list(parse_accelerators({GPU: {}, "example.com/fpga": {"env": None}})) == [GPU, "example.com/fpga"]
    assert parse_scheduling(None) == parse_scheduling({}) == parse_options([], {}).scheduling
    with pytest.raises(OptionsError, match="--accelerators"):
        parse_options(["--accelerators=x"], {})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "must be a mapping of resource names"),
        ({"gpu": {}}, "accelerators[gpu] is not a name of an extended resource"),
        ({3: {}}, "accelerators[3] is not a name of an extended resource"),
        ({GPU: []}, "accelerators[nvidia.com/gpu] must be an object, but is a list"),
        ({GPU: None}, "accelerators[nvidia.com/gpu] must be an object, but is null"),
        (
            {GPU: {"envVars": []}},
            "[nvidia.com/gpu].envVars is not a valid key; the keys are volumes, volumeMounts, env",
        ),
        ({GPU: {"env": {}}}, "accelerators[nvidia.com/gpu].env must be a list, but is an object"),
        ({GPU: {"env": [None]}}, "must not have an empty entry in the list"),
        ({GPU: {"env": [{}]}}, ".env[0].name is required"),
        ({GPU: {"env": [{"name": "A=B"}]}}, ".env[0].name must be a variable's name"),
        ({GPU: {"env": [{"name": ["A"]}]}}, ".env[0].name must be a variable's name"),
        ({GPU: {"env": [{"name": "A", "value": 1}]}}, ".env[0].value must be text, but is 1: put it in quotes"),
        (
            {GPU: {"env": [{"name": "A", "valu": "1"}]}},
            ".env[0].valu is not a valid key; the keys are name, value, valueFrom",
        ),
        ({GPU: {"env": [{"name": "A", "value": "1", "valueFrom": {}}]}}, ".env[0].valueFrom must be an object, and"),
        ({GPU: {"env": [{"name": "TF_CONFIG"}]}}, ".env[0].name must not be TF_CONFIG"),
        ({GPU: {"env": [{"name": "A"}, {"name": "A"}]}}, ".env[1].name is there twice"),
        ({GPU: {"volumes": [{"name": "V", "emptyDir": {}}]}}, ".volumes[0].name must be a volume's name"),
        ({GPU: {"volumes": [{"name": "tfoperator-checkpoint", "emptyDir": {}}]}}, "that spec.checkpoint adds"),
        ({GPU: {"volumes": [{"name": "v"}]}}, ".volumes[0] must have a name and exactly one kind of volume"),
        ({GPU: {"volumes": [{"name": "v", "mountPath": "/x"}]}}, ".volumes[0] must have a name and exactly one kind"),
        ({GPU: {"volumes": [VOLUME, VOLUME]}}, ".volumes[1].name is there twice"),
        (
            {GPU: {"volumeMounts": [{"name": "w", "mountPath": "/x"}], "volumes": [VOLUME]}},
            "one of the volumes, but is",
        ),
        ({GPU: {"volumeMounts": [{"name": {}}]}}, ".volumeMounts[0].name must be the name of one of the volumes"),
        ({GPU: {"volumeMounts": [{"name": "v", "mountPath": "x"}], "volumes": [VOLUME]}}, "must be an absolute path"),
        ({GPU: {"volumeMounts": [{"name": "v"}], "volumes": [VOLUME]}}, ".volumeMounts[0].mountPath is required"),
        ({GPU: {"volumeMounts": [{**MOUNT, "readOnly": "yes"}], "volumes": [VOLUME]}}, "[0].readOnly must be true or"),
        ({GPU: {"volumeMounts": [{**MOUNT, "subPath": 3}], "volumes": [VOLUME]}}, "Mounts[0].subPath must be text"),
        (
            {GPU: {"volumeMounts": [MOUNT, {**MOUNT, "mountPath": "/x/"}], "volumes": [VOLUME]}},
            "[1].mountPath is there",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_accelerators(value)
    assert message in str(caught.value)


def test_a_mistake_in_the_file_names_the_file_and_every_place(tmp_path: Path) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text("accelerators: {nvidia.com/gpu: {env: [{}, {}, {}, {}, {}, {}, {}]}}")
    with pytest.raises(OptionsError) as caught:
        parse_options([f"--config={file}"], {})
    start = f"--config {file}: accelerators is wrong: accelerators[nvidia.com/gpu].env[0].name is required; "
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith("; and 2 more")


words = st.sampled_from(["volumes", "volumeMounts", "env", "name", "mountPath", "value", "valueFrom", "a", GPU, "/x"])
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(words, st.dictionaries(words, st.lists(odd, max_size=2) | odd, max_size=4), max_size=2) | odd)
def test_whatever_the_file_holds_it_is_read_or_refused(value: Any) -> None:
    with suppress(ValueError):
        assert list(parse_accelerators(value)) == list(value or {})


def test_the_rules_are_read() -> None:
    allowed = {"default": ["*", "system-node-critical"], "namespaces": {"research": ["high"], "lab": []}}
    rules = parse_scheduling({"priorityClasses": allowed})
    classes = AllowedNames(("*", "system-node-critical"), {"research": ("high",), "lab": ()})
    assert rules == SchedulingRules(priority_classes=classes)
    assert [classes.of(name) for name in ("research", "lab", "other")] == [("high",), (), classes.default]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "scheduling must be an object, but is a list"),
        ({"queue": {"default": []}}, "queue is not a valid key; the keys are priorityClasses, queues, annotations"),
        ({"queues": None}, "scheduling.queues must be an object"),
        ({"queues": ["a"]}, "scheduling.queues must be an object, but is a list"),
        ({"queues": {}}, "scheduling.queues.default is required"),
        ({"queues": {"default": None}}, "scheduling.queues.default must be a list, but is null"),
        ({"queues": {"default": "*"}}, "scheduling.queues.default must be a list, but is the string"),
        ({"queues": {"default": [""]}}, 'scheduling.queues.default[0] must be a name, or "*" for any name, but is ""'),
        ({"queues": {"default": ["a*"]}}, "scheduling.queues.default[0] must be a name"),
        ({"queues": {"default": ["a/b"]}}, "scheduling.queues.default[0] must be a name"),
        ({"annotations": {"default": ["a/b", "a/b/c"]}}, "scheduling.annotations.default[1] must be a name"),
        ({"queues": {"default": [None]}}, "scheduling.queues.default[0] must be a name"),
        ({"queues": {"default": [1]}}, "scheduling.queues.default[0] must be a string"),
        (
            {"queues": {"default": [], "namespace": {}}},
            "scheduling.queues.namespace is not a valid key; the keys are default, namespaces",
        ),
        ({"queues": {"default": [], "namespaces": None}}, "scheduling.queues.namespaces must be an object"),
        ({"queues": {"default": [], "namespaces": {"a": None}}}, "scheduling.queues.namespaces[a] must be a list"),
        ({"queues": {"default": [], "namespaces": {"A": []}}}, "namespaces[A] is not a valid name of a namespace"),
        ({"queues": {"default": [], "namespaces": {3: []}}}, "namespaces[3] is not a valid name of a namespace"),
    ],
)
def test_a_mistake_is_told_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_scheduling(value)
    assert message in str(caught.value)
