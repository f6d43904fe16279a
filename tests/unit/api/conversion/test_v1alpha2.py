import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.nested import TOO_MANY_LEVELS
from tests.unit.api.samples import FULL_SPEC, TEMPLATE, tfjob
from tfoperator.api.conversion import (
    V1_ONLY,
    Conversion,
    ConversionError,
    check,
    checked_v1alpha2_to_v1,
    to_v1,
    v1_to_v1alpha2,
)
from tfoperator.api.conversion.preserved import MAX_ANNOTATIONS, V1ALPHA2_ONLY, check_restored, split_policy
from tfoperator.api.conversion.result import Note
from tfoperator.api.conversion.v1alpha2 import v1alpha2_to_v1
from tfoperator.api.schema.crd import openapi_schema
from tfoperator.operator.__main__ import MAX_NESTING


def older(replicas: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return tfjob(replicas, **spec) | {"apiVersion": "kubeflow.org/v1alpha2"}


def policies(conversion: Conversion) -> dict[str, str]:
    return {name: spec["restartPolicy"] for name, spec in conversion.obj["spec"]["tfReplicaSpecs"].items()}


def lost(conversion: Conversion) -> list[str]:
    return [note.field for note in conversion.notes if note.lost]


def test_the_design_documents_types_have_their_names_in_v1() -> None:
    job = older({"PS": {}, "Worker": {}, "Chief": {}, "Eval": {}}) | {"status": {"tfReplicaStatuses": {"Eval": {}}}}
    converted = to_v1(job)
    assert converted.obj["apiVersion"] == "kubeflow.org/v1"
    assert list(converted.obj["spec"]["tfReplicaSpecs"]) == ["PS", "Worker", "Chief", "Evaluator"]
    assert converted.obj["status"] == {"replicaStatuses": {"Evaluator": {}}}
    assert lost(converted) == []
    assert "annotations" not in converted.obj["metadata"]


def test_both_versions_have_a_master_and_a_manifest_of_an_earlier_release_keeps_it() -> None:
    up = to_v1(older({"Master": {"restartPolicy": "Never"}, "PS": {"restartPolicy": "Never"}}))
    assert list(up.obj["spec"]["tfReplicaSpecs"]) == ["Master", "PS"]
    assert up.notes == ()
    down = v1_to_v1alpha2(up.obj)
    assert list(down.obj["spec"]["tfReplicaSpecs"]) == ["Master", "PS"]
    assert "annotations" not in down.obj["metadata"]
    forged = annotated(tfjob({"Chief": {"restartPolicy": "Never"}}), V1ALPHA2_ONLY, specNames={"Chief": "Master"})
    assert list(v1_to_v1alpha2(forged).obj["spec"]["tfReplicaSpecs"]) == ["Chief"]


def test_an_unset_restart_policy_keeps_its_meaning() -> None:
    by_template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}
    job = older({"PS": {"restartPolicy": ""}, "Worker": {"template": by_template}, "Chief": {"restartPolicy": "Never"}})
    converted = to_v1(job)
    assert policies(converted) == {"PS": "Always", "Worker": "OnFailure", "Chief": "Never"}
    fields = {f"spec.tfReplicaSpecs[{name}].restartPolicy" for name in ("PS", "Worker")}
    assert {note.field for note in converted.notes} == fields
    assert policies(v1_to_v1alpha2(tfjob({"Worker": {}}))) == {"Worker": "Never"}
    assert check(older({"Local": {"template": by_template}}))[1] == (), "a template's that was used is not ignored"
    _, problems = check(older({"Local": {"template": by_template, "restartPolicy": "Never"}}))
    assert [problem.field for problem in problems] == ["spec.tfReplicaSpecs[Local].template.spec.restartPolicy"]


def test_what_the_releases_had_goes_into_the_run_policy_and_a_problem_names_the_field_that_was_written() -> None:
    converted = to_v1(older({"Worker": {}}, cleanPodPolicy="Wrong", ttlSecondsAfterFinishing=60))
    assert converted.obj["spec"]["runPolicy"] == {"cleanPodPolicy": "Wrong", "ttlSecondsAfterFinished": 60}
    _, problems = check(older({"Worker": {}}, cleanPodPolicy="Wrong"))
    assert [problem.field for problem in problems] == ["spec.cleanPodPolicy"]
    _, problems = check(older({"Eval": {"replicas": -1, "template": {"spec": {"containers": []}}}}))
    fields = [f"spec.tfReplicaSpecs[Eval].{name}" for name in ("replicas", "template.spec.containers")]
    assert [problem.field for problem in problems if problem.severity == "error"] == fields


def test_the_drafts_local_type_is_a_worker_and_two_names_of_one_type_stay_two() -> None:
    alone = to_v1(older({"Local": {"replicas": 1}}))
    assert list(alone.obj["spec"]["tfReplicaSpecs"]) == ["Worker"]
    assert lost(alone) == []
    assert check(older({"Local": {"replicas": 1}}))[1] == ()
    both = older({"Local": {"replicas": 2}, "Worker": {"replicas": 3}})
    for job in (older({"Local": {"replicas": 2}}), older({"Local": {}, "PS": {}}), both):
        assert lost(to_v1(job)) == ["spec.tfReplicaSpecs[Local]"]
    specs = to_v1(both).obj["spec"]["tfReplicaSpecs"]
    assert {name: spec["replicas"] for name, spec in specs.items()} == {"Local": 2, "Worker": 3}
    assert [problem.field for problem in check(both)[1]] == ["spec.tfReplicaSpecs[Local]"]


def test_an_edit_in_the_other_version_holds_and_the_status_survives_a_client_that_drops_annotations() -> None:
    specs = {"Chief": {"restartPolicy": "Never"}, "Evaluator": {"restartPolicy": "Never", "odd": 1}}
    status = {"phase": "Running", "replicaStatuses": {"Worker": {"active": 1, "restartCounts": {"0": 2}}}}
    job = tfjob(specs, runPolicy={"cleanPodPolicy": "All", "suspend": True}) | {"status": status}
    down = v1_to_v1alpha2(job).obj
    assert down["spec"]["cleanPodPolicy"] == "All"
    down["spec"]["cleanPodPolicy"] = "None"
    del down["spec"]["tfReplicaSpecs"]["Eval"]
    down["spec"]["tfReplicaSpecs"]["Chief"]["restartPolicy"] = "OnFailure"
    up = to_v1(down).obj["spec"]
    assert up["runPolicy"] == {"cleanPodPolicy": "None", "suspend": True}
    assert list(up["tfReplicaSpecs"]) == ["Chief"]
    assert up["tfReplicaSpecs"]["Chief"]["restartPolicy"] == "OnFailure"
    down["metadata"].pop("annotations", None)
    assert to_v1(down).obj["status"] == status


@pytest.mark.parametrize("value", ["", "no json", "[]", '{"spec": 1}', '{"replicas": {"Worker": 3}}', 3, None])
def test_an_annotation_that_cannot_be_read_stops_nothing(value: Any) -> None:
    job = older({"Worker": {"restartPolicy": "Never"}})
    job["metadata"]["annotations"] = {V1_ONLY: value}
    assert to_v1(job).obj["spec"] == job["spec"]
    assert to_v1(job).obj["metadata"]["annotations"] == {V1_ONLY: value}


@pytest.mark.parametrize(
    "own", [{}, {"a": "x" * (MAX_ANNOTATIONS - 1)}, {"a": "x" * (200 << 10), "b": "y" * (50 << 10)}]
)
def test_a_stored_job_is_readable_and_one_without_room_for_all_of_v1_is_changed_as_v1_only(own: dict[str, str]) -> None:
    """An API server fails a list, for everybody, with one object whose annotations are too large."""
    env = [{"name": "A", "value": "v" * (300 << 10)}]
    job = tfjob({"Worker": {}}, tensorBoard={"logDir": "/l", "env": env})
    job["metadata"]["annotations"] = {**own, V1_ONLY: "omitted"}
    down = v1_to_v1alpha2(job).obj
    annotations = down["metadata"]["annotations"]
    assert sum(len(name) + len(value) for name, value in annotations.items()) <= MAX_ANNOTATIONS
    assert annotations[V1_ONLY] == "omitted"
    with pytest.raises(ConversionError, match=r"as v1: kubectl edit tfjobs.v1.kubeflow.org NAME$"):
        checked_v1alpha2_to_v1(down)
    del job["spec"]["tensorBoard"]["env"]
    job["metadata"]["annotations"] = {}
    assert checked_v1alpha2_to_v1(v1_to_v1alpha2(job).obj)["spec"]["tensorBoard"] == {"logDir": "/l"}


def test_a_tampered_annotation_makes_no_two_replicas_one_nor_a_template_where_there_is_none() -> None:
    names = {"Worker": "Local", "PS": "Boss", "Chief": "chief"}
    job = tfjob({"Worker": {"replicas": 1}, "PS": {"replicas": 2}, "Local": {"replicas": 3}})
    job["metadata"]["annotations"] = {V1ALPHA2_ONLY: json.dumps({"specNames": names})}
    specs = v1_to_v1alpha2(job).obj["spec"]["tfReplicaSpecs"]
    assert {name: spec["replicas"] for name, spec in specs.items()} == {"Worker": 1, "PS": 2, "Local": 3}
    there = {"template": {"spec": "unchecked"}, "replicas": -1, "odd": 1}
    for job, annotation in ((older({}), V1_ONLY), (tfjob({}), V1ALPHA2_ONLY)):
        job["spec"]["tfReplicaSpecs"] = {"PS": {"restartPolicy": "Never"}}
        job = annotated(job, annotation, replicas={"PS": there})
        convert = v1alpha2_to_v1 if annotation == V1_ONLY else v1_to_v1alpha2
        assert convert(job).obj["spec"]["tfReplicaSpecs"]["PS"] == {"restartPolicy": "Never", "odd": 1}


def annotated(job: dict[str, Any], annotation: str, **preserved: Any) -> dict[str, Any]:
    return job | {"metadata": {**job["metadata"], "annotations": {annotation: json.dumps(preserved)}}}


FIXED = {"managedBy": "kueue.x-k8s.io/multikueue", "schedulingPolicy": {"queue": "gold"}}


def test_the_network_is_read_from_the_field_alone() -> None:
    job = tfjob({"Worker": {"restartPolicy": "Never"}}, network="PerJob")
    down = v1_to_v1alpha2(job).obj
    assert down["spec"]["network"] == "PerJob"
    assert "annotations" not in down["metadata"]
    assert to_v1(down).obj["spec"]["network"] == "PerJob"
    forged = annotated(older({"Worker": {}}), V1_ONLY, spec={"network": "PerJob"})
    assert "network" not in to_v1(forged).obj["spec"]


@pytest.mark.parametrize(
    ("preserved", "policy"),
    [
        ({"runPolicy": FIXED}, {}),
        ({"runPolicy": {**FIXED, "backoffLimit": 3}}, {"backoffLimit": 3}),
        ({"runPolicy": {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 1}}, {}),
    ],
)
def test_an_annotation_says_nothing_about_what_has_a_field(preserved: Any, policy: Any) -> None:
    restored = to_v1(annotated(older({"Worker": {}}), V1_ONLY, spec=preserved)).obj["spec"]
    assert (restored.get("runPolicy") or {}) == policy
    job = annotated(tfjob({"Worker": {}}), V1ALPHA2_ONLY, spec=preserved | {"cleanPodPolicy": "All"})
    assert not {"managedBy", "schedulingPolicy"} & set(v1_to_v1alpha2(job).obj["spec"].get("runPolicy") or {})
    assert "cleanPodPolicy" not in v1_to_v1alpha2(job).obj["spec"]


def bad_values(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield values that a schema of the CRD refuses by its own rules, not by its members' rules."""
    if schema.get("x-kubernetes-int-or-string"):
        yield from ([], True)
    elif (kind := schema.get("type")) is not None:
        yield 3 if kind == "string" else "text"
    if "enum" in schema:
        yield "Odd"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if "pattern" in schema:
        yield "\n no: pattern allows this"
    if schema.get("minLength"):
        yield ""
    if "maxLength" in schema:
        yield "/" + "m" * schema["maxLength"]
    if "maxItems" in schema:
        yield [{"name": f"v{number}", "mountPath": f"/m{number}"} for number in range(schema["maxItems"] + 1)]
    if schema.get("required") or schema.get("minProperties"):
        yield {}


def bad_specs(schema: dict[str, Any]) -> Iterator[Any]:
    yield from bad_values(schema)
    for name, child in schema.get("properties", {}).items():
        yield from ({name: value} for value in bad_specs(child))
    for key, wrap in (("items", lambda v: [v]), ("additionalProperties", lambda v: {"cpu": v})):
        if isinstance(schema.get(key), dict):
            yield from (wrap(value) for value in bad_specs(schema[key]))


def restorable() -> Iterator[tuple[str, Any]]:
    members = openapi_schema()["properties"]["spec"]["properties"]
    policy = members["runPolicy"]["properties"]
    for name in ("cleanPodPolicy", "ttlSecondsAfterFinished", "managedBy"):
        del policy[name]  # fields of v1alpha2, judged by its schema
    del policy["schedulingPolicy"]["properties"]["queue"]
    for name, schema in members.items():
        if name not in ("network", "tfReplicaSpecs"):
            yield from ((name, value) for value in bad_specs(schema))


def refusal(spec: dict[str, Any]) -> str:
    try:
        checked_v1alpha2_to_v1(annotated(older({"Worker": {}}), V1_ONLY, spec=spec))
    except ConversionError as error:
        return str(error)
    return ""


def test_what_v1s_schema_and_rules_refuse_is_not_restored() -> None:
    cases = list(restorable())
    assert len(cases) > 60
    cases += [("runPolicy", 3), ("runPolicy", []), ("runPolicy", {"backoffLimit": 10**400})]
    refused = f"metadata.annotations[{V1_ONLY}]: spec."
    assert [(name, value) for name, value in cases if refused not in refusal({name: value})] == []
    for field in ("env", "imagePullSecrets", "volumes", "volumeMounts"):
        board = {"logDir": "gs://l", field: [None]}
        assert refusal({"tensorBoard": board}).endswith(f"{field}[0]: must be an object")
    assert refusal(FULL_SPEC) == ""


def test_what_cant_be_decoded_as_v1_is_not_restored_nor_a_tensorboard_whose_name_does_not_fit() -> None:
    deep: Any = []
    for _ in range(TOO_MANY_LEVELS):
        deep = [deep]
    with pytest.raises(ConversionError, match=r"v1-only.*: spec: "):
        check_restored(older({}) | {"spec": {"checkpoint": deep}}, ["checkpoint"])
    fits, too_long = (
        annotated(older({"Worker": {}}, name="n" * length), V1_ONLY, spec={"tensorBoard": {"logDir": "gs://logs"}})
        for length in (51, 52)
    )
    checked_v1alpha2_to_v1(fits)
    with pytest.raises(ConversionError, match=r"metadata\.name"):
        checked_v1alpha2_to_v1(too_long)


def test_what_is_not_restored_is_not_judged() -> None:
    # Older than a rule, or a part that an API server asks about: v1alpha2's own rules have judged it.
    for job in (older({"Worker": {"replicas": -1}}, name="N_"), older({}), {"apiVersion": "x"}):
        job = job | {"metadata": {**job.get("metadata", {}), "annotations": {V1_ONLY: '{"spec":{"runPolicy":{}}}'}}}
        checked_v1alpha2_to_v1(job)


@pytest.mark.parametrize(("levels", "restored"), [(900, True), (1100, False), (15_000, False), (100_000, False)])
def test_a_deep_annotation_stops_no_read(levels: int, restored: bool) -> None:
    job = tfjob({"Worker": {}})
    job["metadata"]["annotations"] = {V1ALPHA2_ONLY: '{"spec": {"odd": ' + "[" * levels + "]" * levels + "}}"}
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(MAX_NESTING)
    try:
        assert ("odd" in v1_to_v1alpha2(job).obj["spec"]) is restored
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "wrong",
    [
        {"spec": None},
        {"spec": 3},
        {"spec": {"tfReplicaSpecs": [1]}},
        {"spec": {"tfReplicaSpecs": {"Eval": 3}}},
        {"spec": {"tfReplicaSpecs": {"Worker": {"template": []}}}},
        {"metadata": 1, "spec": {"odd": 1}},
        {"metadata": {"annotations": 1}, "spec": {"odd": 1}},
        {"status": 3},
        {"spec": {"runPolicy": 3, "cleanPodPolicy": "All"}},
    ],
)
def test_wrong_types_are_passed_on_to_validation(wrong: dict[str, Any]) -> None:
    job = older({"Worker": {}}) | wrong
    assert v1_to_v1alpha2(to_v1(job).obj).obj["apiVersion"] == "kubeflow.org/v1alpha2"
    check(job)


def test_notes_read_well() -> None:
    assert list(map(str, (Note("spec.a", "is lost"), Note("", "is lost")))) == ["spec.a: is lost", "is lost"]


# Round trips. An empty map of annotations is the same as none, and a job has an explicit restart policy in the end.

plain = st.none() | st.booleans() | st.integers(-5, 5) | st.text("aé", max_size=2)
values = st.recursive(plain, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.sampled_from("abc"), v, max_size=2))
replica_types = st.sampled_from(
    ["PS", "Worker", "worker", "Chief", "Master", "master", "Eval", "eval", "Evaluator", "evaluator", "Local", "Boss"]
)
restart_policies = st.sampled_from(["Always", "OnFailure", "Never", "ExitCode", "", None])
templates = st.sampled_from(
    [TEMPLATE, {}, None, {"spec": {"restartPolicy": "OnFailure"}}, {"spec": {"restartPolicy": "Odd"}}]
)
optional_members = {
    "cleanPodPolicy": st.sampled_from(["All", "Running", "None"]),
    "ttlSecondsAfterFinishing": st.integers(0, 9),
    "ttlSecondsAfterFinished": st.integers(0, 9),
    "tfReplicaStatuses": values,
    "odd": values,
}
replica_specs = st.none() | st.fixed_dictionaries(
    {},
    optional={"replicas": st.integers(0, 3), "restartPolicy": restart_policies, "template": templates, "odd": values},
)
run_policies = st.none() | st.fixed_dictionaries(
    {},
    optional={
        **optional_members,
        "suspend": st.booleans(),
        "managedBy": st.sampled_from(["me", "", None]),
        "schedulingPolicy": st.just(3)
        | st.none()
        | st.fixed_dictionaries({}, optional={"minAvailable": st.just(1), "queue": st.sampled_from(["a", "", None])}),
    },
)
specs = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "tfReplicaSpecs": st.none() | st.dictionaries(replica_types, replica_specs, max_size=4),
        "runPolicy": run_policies,
        "successPolicy": st.sampled_from(["", "AllWorkers"]),
        "enableDynamicWorker": st.booleans(),
        "network": st.sampled_from(["PerReplica", "PerJob", "", None, 3]),
        **optional_members,
    },
)
replica_statuses = st.dictionaries(replica_types, st.dictionaries(st.sampled_from(["active", "ready"]), plain))
statuses = st.fixed_dictionaries(
    {},
    optional={
        "replicaStatuses": st.none() | replica_statuses,
        "tfReplicaStatuses": replica_statuses,
        "conditions": st.none() | st.just([{"type": "Ready", "status": "True"}]),
        "phase": st.just("Running"),
        "odd": values,
    },
)
metadata = st.fixed_dictionaries(
    {"name": st.just("mnist")},
    optional={"annotations": st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=3), min_size=1)},
)


def jobs(version: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"apiVersion": st.just(version), "kind": st.just("TFJob"), "metadata": metadata},
        optional={"spec": specs, "status": st.none() | statuses, "odd": values},
    )


def explicit(job: dict[str, Any], policy: Any) -> dict[str, Any]:
    replicas = (job.get("spec") or {}).get("tfReplicaSpecs")
    if not replicas:
        return job
    filled = {
        name: spec if spec is None or spec.get("restartPolicy") else spec | {"restartPolicy": policy(spec)}
        for name, spec in replicas.items()
    }
    return job | {"spec": job["spec"] | {"tfReplicaSpecs": filled}}


def always_unless_the_template_says(spec: dict[str, Any]) -> str:
    given = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    return given if given == "OnFailure" else "Always"


@given(jobs("kubeflow.org/v1"))
def test_v1_survives_v1alpha2(job: dict[str, Any]) -> None:
    before = json.dumps(job)
    there = v1_to_v1alpha2(job).obj
    assert v1alpha2_to_v1(there).obj == explicit(job, lambda _: "Never")
    assert json.dumps(job) == before


@given(jobs("kubeflow.org/v1alpha2"))
def test_v1alpha2_survives_v1(job: dict[str, Any]) -> None:
    before = json.dumps(job)
    there = v1alpha2_to_v1(job).obj
    assert v1_to_v1alpha2(there).obj == explicit(job, always_unless_the_template_says)
    assert json.dumps(job) == before


@given(jobs("kubeflow.org/v1alpha2"))
def test_whatever_is_not_carried_over_has_a_note(job: dict[str, Any]) -> None:
    conversion = v1alpha2_to_v1(job)
    spec = job.get("spec") or {}
    converted_fields = {"tfReplicaSpecs", "cleanPodPolicy", "network", "ttlSecondsAfterFinishing", "runPolicy"}
    policy = spec.get("runPolicy")
    assert ("spec.runPolicy" in lost(conversion)) == (
        "runPolicy" in spec and (not policy or split_policy(policy)[1] != {})
    )
    assert {f"spec.{name}" for name in spec if name not in converted_fields} <= set(lost(conversion))
    for name, replica in (spec.get("tfReplicaSpecs") or {}).items():
        assert "odd" not in (replica or {}) or f"spec.tfReplicaSpecs[{name}].odd" in lost(conversion)
