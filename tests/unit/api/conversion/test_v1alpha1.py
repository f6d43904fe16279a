import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.samples import TEMPLATE
from tfoperator.api.conversion import Conversion, ConversionError, check, to_v1
from tfoperator.api.conversion.preserved import V1ALPHA1_ONLY
from tfoperator.api.conversion.v1alpha1 import DEFAULT_PS_IMAGE


def older(*replicas: Any, **spec: Any) -> dict[str, Any]:
    filled = [{"template": TEMPLATE} | replica if isinstance(replica, dict) else replica for replica in replicas]
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "TFJob",
        "metadata": {"name": "mnist"},
        "spec": {"replicaSpecs": filled, **spec},
    }


def template(**pod: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}], **pod}}


def replicas(conversion: Conversion) -> dict[str, Any]:
    specs: dict[str, Any] = conversion.obj["spec"]["tfReplicaSpecs"]
    return specs


def containers(conversion: Conversion, replica_type: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = replicas(conversion)[replica_type]["template"]["spec"]["containers"]
    return listed


def lost(conversion: Conversion) -> list[str]:
    return [note.field for note in conversion.notes if note.lost]


def noted(conversion: Conversion, field: str) -> str:
    return "\n".join(note.message for note in conversion.notes if note.field == field)


def kept(conversion: Conversion) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(conversion.obj["metadata"]["annotations"][V1ALPHA1_ONLY])
    return value


MASTER, WORKER, PS = ({"tfReplicaType": name} for name in ("MASTER", "WORKER", "PS"))


def test_the_first_months_group_and_kind_are_read_and_a_replica_without_type_is_the_master() -> None:
    job = older(MASTER) | {"apiVersion": "tensorflow.org/v1alpha1", "kind": "TfJob"}
    assert check(job)[1] == ()
    assert to_v1(job).obj["kind"] == "TFJob"
    converted = to_v1(older({"replicas": 1}))
    assert list(replicas(converted)) == ["Master"]
    assert "MASTER is used" in noted(converted, "spec.replicaSpecs[0]")
    assert "worker 0 decides" in noted(to_v1(older(WORKER)), "spec")


@pytest.mark.parametrize(
    ("given_policy", "policy"),
    [("OnFailure", "ExitCode"), ("Always", "ExitCode"), (None, "ExitCode"), ("Never", "Never")],
)
def test_exit_codes_decide_about_restarts_unless_there_are_none(given_policy: str | None, policy: str) -> None:
    pod = {"restartPolicy": given_policy} if given_policy else {}
    converted, problems = check(older(MASTER | {"template": template(**pod)}))
    assert replicas(converted)["Master"]["restartPolicy"] == policy
    assert "restartPolicy" not in replicas(converted)["Master"]["template"]["spec"]
    assert problems == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [{"containerPort": 2223, "name": "tfjob-port"}]),
        ([{"containerPort": 2223}], [{"containerPort": 2223, "name": "tfjob-port"}]),
        ([{"containerPort": 80}], [{"containerPort": 80}, {"containerPort": 2223, "name": "tfjob-port"}]),
        ([{"containerPort": 2223, "name": "tfjob-port"}], [{"containerPort": 2223, "name": "tfjob-port"}]),
    ],
)
def test_the_port_becomes_one_of_the_container_and_is_not_added_twice(
    before: list[Any] | None, after: list[Any]
) -> None:
    container = {"name": "tensorflow", "image": "i", **({"ports": before} if before else {})}
    pod = {"spec": {"containers": [{"name": "sidecar", "image": "i"}, container]}}
    converted = to_v1(older(MASTER | {"tfPort": 2223, "template": pod}))
    assert [c.get("ports") for c in containers(converted, "Master")] == [None, after]
    assert lost(converted) == []


def test_a_port_and_what_else_v1_has_no_place_for_is_kept_as_it_was_written_and_so_is_a_second_spec_of_a_type() -> None:
    named = {"name": "tensorflow", "image": "i", "ports": [{"name": "tfjob-port", "containerPort": 1}]}
    for pod in ({"spec": {"containers": [named]}}, {"spec": {}}, None):
        converted = to_v1(older(WORKER | {"tfPort": 2223, "template": pod}))
        assert lost(converted) == ["spec.replicaSpecs[0].tfPort"]
        assert kept(converted)["replicas"] == {"Worker": {"tfPort": 2223}}
    converted = to_v1(older(MASTER | {"odd": 1}, RuntimeId="ab12", strange=[2]))
    assert lost(converted) == ["spec.replicaSpecs[0].odd", "spec.RuntimeId", "spec.strange"]
    assert kept(converted) == {"spec": {"RuntimeId": "ab12", "strange": [2]}, "replicas": {"Master": {"odd": 1}}}
    second = WORKER | {"replicas": 5, "template": TEMPLATE}
    converted = to_v1(older(WORKER | {"replicas": 2}, second))
    assert replicas(converted)["Worker"]["replicas"] == 2
    assert lost(converted) == ["spec.replicaSpecs[1]"]
    assert kept(converted)["spec"] == {"replicaSpecs": [second]}


@pytest.mark.parametrize(
    ("spec", "image"), [({}, DEFAULT_PS_IMAGE), ({"tfImage": "example.com/tf:2"}, "example.com/tf:2")]
)
def test_the_default_parameter_server_is_written_out_as_is_one_that_the_old_operator_filled_in(
    spec: dict[str, Any], image: str
) -> None:
    converted, problems = check(older(MASTER, PS | {"template": None, "tfPort": 2223}, **spec))
    (container,) = containers(converted, "PS")
    assert (container["image"], container["ports"][0]["containerPort"]) == (image, 2223)
    compile(container["command"][-1], "server", "exec")
    assert problems == ()
    assert image in noted(converted, "spec.replicaSpecs[1]")
    pod = {"spec": {"containers": [{"name": "tensorflow", "volumeMounts": [{"name": "ps-config-volume"}]}]}}
    converted = to_v1(older(MASTER, PS | {"template": pod, "IsDefaultPS": True}))
    assert "volumeMounts" not in containers(converted, "PS")[0]


@pytest.mark.parametrize(
    ("job", "starts"),
    [
        (older(MASTER | {"tfPort": 0}), ["spec.replicaSpecs[0].tfPort: must be 1 or more, but is 0"]),
        # Only a parameter server can do without a template.
        (older(WORKER | {"template": None}), ["spec.replicaSpecs[0].template: is required"]),
        (older(MASTER, tensorboard={"serviceType": "None"}), ["spec.tensorboard.logDir:", "spec.tensorboard.serviceT"]),
        (older() | {"spec": {}}, ["spec.replicaSpecs:"]),
    ],
)
def test_what_is_wrong_is_said_of_the_field_as_it_was_written(job: dict[str, Any], starts: list[str]) -> None:
    problems = [str(problem) for problem in check(job)[1]]
    assert all(problem.startswith(start) for problem, start in zip(problems, starts, strict=True)), problems


@pytest.mark.parametrize(
    ("specs", "chief", "expressed"),
    [
        ([MASTER, WORKER], {"replicaName": "MASTER", "replicaIndex": 0}, True),
        ([MASTER, WORKER], {"replicaName": "MASTER"}, True),
        ([WORKER], {"replicaName": "WORKER", "replicaIndex": 0}, True),
        ([MASTER, WORKER], {"replicaName": "WORKER", "replicaIndex": 0}, False),
        ([WORKER], {"replicaName": "MASTER", "replicaIndex": 0}, False),
        ([WORKER], {"replicaName": "WORKER", "replicaIndex": 1}, False),
        ([MASTER], {}, False),
        ([MASTER], {"replicaName": "MASTER", "odd": 1}, False),
    ],
)
def test_a_termination_policy_is_carried_over_where_v1_decides_alike(
    specs: list[Any], chief: dict[str, Any], expressed: bool
) -> None:
    policy = {"chief": chief}
    converted = to_v1(older(*specs, terminationPolicy=policy))
    assert lost(converted) == ([] if expressed else ["spec.terminationPolicy"])
    if not expressed:
        assert kept(converted)["spec"] == {"terminationPolicy": policy}


def test_a_policy_with_the_right_chief_and_unknown_fields_is_reported_with_these_fields() -> None:
    policy = {"chief": {"replicaName": "MASTER", "odd": 1}, "odder": 2}
    converted = to_v1(older(MASTER, terminationPolicy=policy))
    fields = "spec.terminationPolicy.odder, spec.terminationPolicy.chief.odd"
    assert noted(converted, "spec.terminationPolicy").startswith(f"has fields that v1 does not have: {fields};")


def test_the_report_about_a_lost_port_gives_the_real_cause() -> None:
    for ports, cause in (
        ([{"name": "tfjob-port", "containerPort": 1}], "a port named tfjob-port with another number"),
        ({"tfjob-port": 2223}, "the ports of the container are not a list"),
    ):
        pod = {"spec": {"containers": [{"name": "tensorflow", "image": "i", "ports": ports}]}}
        converted = to_v1(older(WORKER | {"tfPort": 2223, "template": pod}))
        assert cause in noted(converted, "spec.replicaSpecs[0].tfPort")


def test_the_scheduler_goes_into_every_template_and_an_image_that_nothing_runs_and_a_status_are_left_out() -> None:
    other = WORKER | {"template": template(schedulerName="other")}
    converted = to_v1(older(MASTER, other, PS | {"template": None}, schedulerName="kube-batch"))
    pods = [spec["template"]["spec"] for spec in replicas(converted).values()]
    assert [pod["schedulerName"] for pod in pods] == ["kube-batch"] * 3
    assert lost(converted) == ["spec.replicaSpecs[1].template.spec.schedulerName"]
    converted = to_v1(older(MASTER, tfImage="i") | {"status": {"phase": "Done"}})
    assert "status" not in converted.obj
    assert noted(converted, "status")
    assert noted(converted, "spec.tfImage")
    assert lost(converted) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, ": must be an object, but is null"),
        ({"replicaSpecs": {}}, ".replicaSpecs: must be a list, but is an object"),
        ({"replicaSpecs": "x"}, '.replicaSpecs: must be a list, but is "x"'),
        ({"replicaSpecs": [3]}, ".replicaSpecs[0]: must be an object, but is 3"),
        (
            {"replicaSpecs": [{"tfReplicaType": "EVAL"}]},
            '.replicaSpecs[0].tfReplicaType: must be one of MASTER, PS, WORKER, but is "EVAL"',
        ),
        ({"replicaSpecs": [{"tfReplicaType": []}]}, ".replicaSpecs[0].tfReplicaType: must be a string, but is a list"),
        ({"terminationPolicy": []}, ".terminationPolicy: must be an object, but is a list"),
        ({"terminationPolicy": {"chief": 1}}, ".terminationPolicy.chief: must be an object, but is 1"),
        ({"tfImage": 1}, ".tfImage: must be a string, but is 1"),
    ],
)
def test_what_is_no_v1alpha1_job_is_refused(spec: Any, message: str) -> None:
    job = older() | {"spec": spec}
    with pytest.raises(ConversionError) as caught:
        to_v1(job)
    assert str(caught.value) == f"spec{message}"
    conversion, problems = check(job)
    assert conversion.obj is job
    assert [str(problem) for problem in problems] == [f"spec{message}"]


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Service"},
        {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"},
        {"apiVersion": "kubeflow.org/v1alpha1", "kind": "PyTorchJob"},
        {"apiVersion": ["kubeflow.org/v1alpha1"], "kind": "TFJob"},
        {},
    ],
)
def test_everything_else_is_left_alone(obj: dict[str, Any]) -> None:
    assert to_v1(obj).obj is obj
    assert to_v1(obj).notes == ()


@pytest.mark.parametrize("spelling", ["IsDefaultPS", "isDefaultPS"])
def test_a_field_that_its_operator_wrote_into_every_replica_is_known(spelling: str) -> None:
    job = older() | {"spec": {"replicaSpecs": [{"tfReplicaType": "WORKER", spelling: False, "template": TEMPLATE}]}}
    assert lost(to_v1(job)) == []


names = ["spec", "containers", "name", "ports", "containerPort", "restartPolicy", "schedulerName", "chief", "x"]
junk: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "MASTER", "PS", "OnFailure", "tensorflow"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(names), inner, max_size=3),
    max_leaves=8,
)
members = ["replicas", "template", "tfPort", "tfReplicaType", "isDefaultPS", "odd"]
items = st.dictionaries(st.sampled_from(members), junk, max_size=4) | junk
spec_members = ["tensorBoard", "terminationPolicy", "tfImage", "schedulerName", "runtimeId", "odd"]


@given(st.lists(items, max_size=3), st.dictionaries(st.sampled_from(spec_members), junk, max_size=3))
def test_anything_is_converted_or_refused_and_the_original_left_alone(listed: list[Any], spec: dict[str, Any]) -> None:
    job = older() | {"spec": {"replicaSpecs": listed, **spec}}
    before = json.dumps(job)
    conversion, problems = check(job)
    refused = conversion.obj is job
    assert problems or not refused
    for name in ("runtimeId", "odd"):
        assert refused or spec.get(name) is None or f"spec.{name}" in lost(conversion)
    assert json.dumps(job) == before
