import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import pytest

from hack import generate
from hack.fields import field_rows
from tests.support.large_yaml import loaded
from tfoperator.api.fields.field import NotDeclared
from tfoperator.api.fields.limits import QUANTITY_PATTERN
from tfoperator.api.fields.structure import members
from tfoperator.api.pods import types
from tfoperator.api.schema.crd import crd, open_templates_patch_yaml, openapi_schema, versions_patch_yaml
from tfoperator.api.schema.fields import TABLE
from tfoperator.api.schema.pod_schemas import without_descriptions
from tfoperator.api.schema.structs import struct_schema
from tfoperator.api.schema.v1alpha2 import v1alpha2_schema
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, TFJobSpec


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


class _New(msgspec.Struct):
    seconds: int | None = None


SCHEMA = openapi_schema()
NODES = dict(nodes(SCHEMA))
OLDER_NODES = dict(nodes(v1alpha2_schema(SCHEMA)))


def test_the_generated_files_are_up_to_date_and_the_patch_of_the_webhook_overlay_makes_one_crd_of_the_other() -> None:
    assert generate.main(["--check"]) == 0
    patched = jsonpatch.apply_patch(crd(), loaded(versions_patch_yaml()))
    assert patched == crd(all_versions=True)


def test_the_patches_of_the_components_open_the_templates() -> None:
    patched = jsonpatch.apply_patch(crd(), loaded(open_templates_patch_yaml()))
    assert patched == crd(open_templates=True)
    both = jsonpatch.apply_patch(crd(all_versions=True), loaded(open_templates_patch_yaml()))
    both = jsonpatch.apply_patch(both, loaded(open_templates_patch_yaml(older=True)))
    assert both == crd(all_versions=True, open_templates=True)


def test_a_generated_file_that_is_stale_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The files are made once here: to make them takes seconds.
    texts = {tmp_path / path.relative_to(generate.ROOT): text for path, text in generate.generated().items()}
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "generated", lambda: texts)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert generate.main(["--check"]) == 0
    for name in ("manifests/base/crd.yaml", "manifests/components/webhook/crd-versions.yaml", "docs/fields.md"):
        stale = tmp_path / name
        stale.write_text(texts[stale].replace("lastReconcileTime", "lastReconcile"))
        assert generate.main(["--check"]) == 1
        assert capsys.readouterr().err.startswith(f"{name} is out of date")
        stale.write_text(texts[stale])


def test_the_table_of_fields_has_every_field_of_the_types_once_and_says_since_when() -> None:
    rows = {row.path: row for row in field_rows()}
    assert len(rows) == len(list(field_rows()))
    for struct, path in ((TFJobSpec, "spec"), (TFJobStatus, "status"), (ReplicaSpec, "spec.tfReplicaSpecs[*]")):
        assert {f"{path}.{name}" for name in members(struct)} - rows.keys() == set()
    assert rows["spec.tfReplicaSpecs[*].replicas"][1:4] == ("integer", "`1`", "v1")
    assert rows["spec.clusterArguments"][1:4] == ("boolean", "`false`", "0.1.0")
    assert rows["spec.checkpoint.mountPath"].default == "required"
    # The members of a condition are as old in the Go operator as its list of conditions, and no older than ours.
    ages = {path: rows[path].since for path in ("status.conditions[*].reason", "status.operatorConditions[*].reason")}
    assert [*ages.values()] == ["v1", "0.1.0"]


def test_printer_columns_and_the_scale_subresource_read_fields_that_exist_and_that_names_the_workers() -> None:
    (version,) = crd()["spec"]["versions"]
    shown = {re.sub(r"\[.*\]", "[]", column["jsonPath"]) for column in version["additionalPrinterColumns"]}
    assert shown - NODES.keys() == {".metadata.creationTimestamp"}
    paths = version["subresources"]["scale"].values()
    assert all(".Worker." in path for path in paths)
    assert {path.replace(".Worker.", "[].") for path in paths} <= NODES.keys()


def test_what_cant_be_changed_has_fields_and_v1s_rules_in_the_older_version() -> None:
    of_policy = (".spec.runPolicy.managedBy", ".spec.runPolicy.schedulingPolicy.queue")
    fixed = (".spec.network", *of_policy)
    assert {path for path in OLDER_NODES if path.startswith(".spec.runPolicy.")} == {
        *of_policy,
        ".spec.runPolicy.schedulingPolicy",
    }
    assert all(OLDER_NODES[path] == NODES[path] for path in fixed)
    # Every transition rule outside the replicas and their names; a TensorBoard is judged when it is restored. Clients
    # of v1alpha2 only carry a data service along, in an annotation.
    carried = ".spec.dataService"
    transitions = [
        (path, rule)
        for path, node in NODES.items()
        for rule in node.get("x-kubernetes-validations", ())
        if path != carried
        if "oldSelf" in rule["rule"] and "tfReplicaSpecs" not in path and "self.metadata.name" not in rule["rule"]
    ]
    assert len(transitions) == 3
    for path, rule in transitions:
        assert rule in OLDER_NODES[path]["x-kubernetes-validations"]


def test_the_schema_is_structural() -> None:
    for path, schema in (*NODES.items(), *OLDER_NODES.items()):
        # A quantity may be any number or text, for which there is no type.
        typed = (
            "type" in schema or schema.get("x-kubernetes-int-or-string") or schema.get("pattern") == QUANTITY_PATTERN
        )
        assert typed, path
        assert not {"$ref", "definitions", "oneOf", "not"} & set(schema), path
        # Kueue's webhook writes null there for a parameter server without a template.
        assert ("nullable" in schema) == path.endswith(".template.spec.containers"), path
        assert not ("properties" in schema and "additionalProperties" in schema), path
        assert set(schema.get("required", [])) <= set(schema.get("properties", {})), path


def test_every_field_that_is_ours_says_what_it_means() -> None:
    for path, schema in NODES.items():
        # Within a volume of a checkpoint or TensorBoard, a field means the same as in a template, which describes it.
        brief = path.startswith((".spec.checkpoint.volume.", ".spec.tensorBoard.volumes[]."))
        if path.startswith((".spec.", ".status.")) and not path.endswith("[]") and not brief:
            assert schema.get("description"), path


def test_a_field_without_a_declaration_is_named_with_the_file_and_the_line_to_write() -> None:
    with pytest.raises(
        NotDeclared, match=r'_New\.seconds has no declaration: in .*test_crd\.py, .* Field\("Its meaning'
    ):
        struct_schema(_New, TABLE)


def test_rules_speak_to_people_and_bound_what_they_walk_over() -> None:
    rules = [(path, rule) for path, schema in NODES.items() for rule in schema.get("x-kubernetes-validations", [])]
    assert {path for path, _ in rules} >= {"", ".spec", ".spec.tfReplicaSpecs"}
    for path, rule in rules:
        assert rule["message"], path
    assert NODES[".spec.tfReplicaSpecs"]["maxProperties"] == len(ReplicaType)
    assert NODES[".spec.tfReplicaSpecs[].template.spec.containers"]["maxItems"]


@pytest.mark.parametrize("all_versions", [False, True])
def test_client_side_apply_can_keep_a_copy_of_it_in_an_annotation(all_versions: bool) -> None:
    text = json.dumps(crd(all_versions=all_versions), separators=(",", ":"))
    # Annotations of other programs, such as the certificate's authority of a webhook, have to find room, too.
    assert len(text) < 262_144 * 0.99


def test_a_template_has_all_fields_of_pods_with_types_and_meaning_and_an_open_one_only_what_jobs_need() -> None:
    template = ".spec.tfReplicaSpecs[].template"
    for path in (
        "metadata.labels",
        "spec.containers[].resources.limits",
        "spec.tolerations[].effect",
        "spec.volumes[].nfs",
    ):
        assert NODES[f"{template}.{path}"]["description"]
    assert NODES[f"{template}.spec.containers[].livenessProbe.httpGet.port"]["x-kubernetes-int-or-string"]
    assert NODES[f"{template}.spec.containers[].env[]"]["required"] == ["name"]
    container = NODES[f"{template}.spec.containers[]"]
    assert container["required"] == ["image", "name"]
    assert "x-kubernetes-preserve-unknown-fields" not in container
    left_open = dict(nodes(openapi_schema(open_templates=True)))[f"{template}.spec.containers[]"]
    assert left_open["x-kubernetes-preserve-unknown-fields"]
    assert left_open["properties"].keys() == {"image", "name", "ports"}
    for member in ("image", "name"):
        assert {**left_open["properties"][member], **container["properties"][member]} == {
            **left_open["properties"][member],
            "description": container["properties"][member]["description"],
        }


def test_the_older_version_checks_templates_as_v1_does() -> None:
    template = ".spec.tfReplicaSpecs[].template"
    v1, older = (without_descriptions(by_path[template]) for by_path in (NODES, OLDER_NODES))
    assert v1 == older


def test_every_field_of_a_pod_has_a_description_and_every_description_a_field() -> None:
    pod_types = types.pod_types()
    for kind in pod_types.keys() - {"EphemeralContainer", "ManagedFieldsEntry"}:
        for field in pod_types[kind].fields:
            assert types.description(kind, field).endswith("."), (kind, field)
    anywhere = {field for of in pod_types.values() for field in of.fields}
    for kind, field in types.described():
        assert field in (anywhere if kind == "every" else pod_types[kind].fields), (kind, field)


def test_each_call_makes_a_new_object() -> None:
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clear()
    struct_schema(TFJobSpec, TABLE)["properties"]["tfReplicaSpecs"]["x-kubernetes-validations"].clear()
    assert openapi_schema() == SCHEMA
