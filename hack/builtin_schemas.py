"""Writes the schemas of the built-in kinds for the embedded API server: all fields, without their descriptions.

It also writes the types of all fields of a pod template, for the CRD and for all checks of pods.

python hack/builtin_schemas.py     reads the module that `make controlplane` fetches, and writes one schema per line
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import gobuild
from tfoperator.api.pods.types import INT_OR_STRING, LIST, MAP, OBJECT, QUANTITY, TEMPLATE, TIME, TYPES
from tfoperator.local.apiserver.display.openapi import names_of, reachable
from tfoperator.local.apiserver.objects.builtin_fields import BUILTIN_SCHEMAS
from tfoperator.local.apiserver.resource_types import BUILTIN

KUBERNETES = "k8s.io/kubernetes"
CORE = "io.k8s.api.core.v1."


def published(folder: Path) -> dict[str, Any]:
    """All schemas of the documents that describe the groups of the built-in kinds."""
    groups = {
        f"apis__{resource.group}__{resource.version}" if resource.group else f"api__{resource.version}"
        for resource in BUILTIN
    }
    schemas: dict[str, Any] = {}
    for group in sorted(groups):
        document = json.loads((folder / f"{group}_openapi.json").read_text())
        schemas |= document["components"]["schemas"]
    return schemas


def kinds(schemas: dict[str, Any]) -> str:
    """The schemas of the built-in kinds and all that they refer to, in an order that does not change."""
    return document(without_texts(reachable(schemas, names_of(schemas, BUILTIN).values())))


_PLAIN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": INT_OR_STRING,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": TIME,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": OBJECT,
}


def pod_template_types(schemas: dict[str, Any]) -> str:
    """All types of a pod template: the type of each field, and the names of those that must be there."""
    reached = reachable(schemas, [CORE + TEMPLATE])
    types = {
        name.rpartition(".")[2]: {"fields": {field: type_of(of) for field, of in schema["properties"].items()}}
        | ({"required": sorted(schema["required"])} if schema.get("required") else {})
        for name, schema in reached.items()
        if "properties" in schema
    }
    return document(types)


def type_of(field: dict[str, Any]) -> str:
    """The type of a field in the words of `tfoperator.api.pods.types`: `[]EnvVar`, `{}quantity`, `int32`."""
    if "allOf" in field:
        return type_of(field["allOf"][0])
    if "$ref" in field:
        name = str(field["$ref"].rpartition("/")[2])
        return _PLAIN.get(name, name.rpartition(".")[2])
    if field["type"] == "array":
        return LIST + type_of(field["items"])
    if field["type"] == "object":
        return MAP + type_of(field["additionalProperties"])
    return str(field["format"] if field["type"] == "integer" else field["type"])


def document(members: dict[str, Any]) -> str:
    """One member per line."""
    written = (
        json.dumps({name: member}, separators=(",", ":"), sort_keys=True, ensure_ascii=False)[1:-1]
        for name, member in sorted(members.items())
    )
    return "{\n" + ",\n".join(written) + "\n}\n"


def without_texts(value: Any) -> Any:
    """Without descriptions, which are sentences of others. A field of that name has a schema, and stays."""
    if isinstance(value, list):
        return [without_texts(item) for item in value]
    if isinstance(value, dict):
        kept = {key: member for key, member in value.items() if not (key == "description" and isinstance(member, str))}
        return {key: without_texts(member) for key, member in kept.items()}
    return value


def main() -> int:
    """Write the files; returns the exit code."""
    try:
        folder = gobuild.module_folder("kubernetes", KUBERNETES) / "api" / "openapi-spec" / "v3"
    except gobuild.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    schemas = published(folder)
    for target, text in ((BUILTIN_SCHEMAS, kinds(schemas)), (TYPES, pod_template_types(schemas))):
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
