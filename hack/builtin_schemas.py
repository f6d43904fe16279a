"""Writes the schemas of the built-in kinds that the embedded API server has: their fields, without Kubernetes' texts.

Writes the fields of a pod template, at every depth, too, which `tfoperator validate` knows.

python hack/builtin_schemas.py     reads the module that `make controlplane` fetches, and writes one schema per line
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import gobuild
from tfoperator.api.validation.pod_fields import POD_FIELDS
from tfoperator.local.apiserver.display.openapi import BUILTIN_SCHEMAS, names_of, reachable
from tfoperator.local.apiserver.resource_types import BUILTIN

KUBERNETES = "k8s.io/kubernetes"
CORE = "io.k8s.api.core.v1."


def published(folder: Path) -> dict[str, Any]:
    """All schemas of the documents that describe the groups of the built-in kinds."""
    groups = {f"apis__{one.group}__{one.version}" if one.group else f"api__{one.version}" for one in BUILTIN}
    found: dict[str, Any] = {}
    for group in sorted(groups):
        document = json.loads((folder / f"{group}_openapi.json").read_text())
        found |= document["components"]["schemas"]
    return found


def kinds(schemas: dict[str, Any]) -> str:
    """The schemas of the built-in kinds and all that they refer to, in an order that does not change."""
    return document(without_texts(reachable(schemas, names_of(schemas, BUILTIN).values())))


def pod_fields(schemas: dict[str, Any]) -> str:
    """The fields of a pod template and of all types in it, each with its type: `Probe`, or `[]EnvVar` for a list.

    The type is "" for what has no fields: strings, numbers, lists and maps of them. There are no maps of others.
    """
    found = reachable(schemas, [CORE + "PodTemplateSpec"])
    types = {name.rpartition(".")[2]: one["properties"] for name, one in found.items() if "properties" in one}

    def type_of(field: Any) -> str:
        reference = re.search(r'"[^"]+[.](\w+)"}', json.dumps(field))
        if not reference or reference[1] not in types:
            return ""
        return f"[]{reference[1]}" if field.get("type") == "array" else reference[1]

    return document({name: {field: type_of(one) for field, one in of.items()} for name, of in types.items()})


def document(members: dict[str, Any]) -> str:
    """One member per line."""
    written = (
        json.dumps({name: one}, separators=(",", ":"), sort_keys=True, ensure_ascii=False)[1:-1]
        for name, one in sorted(members.items())
    )
    return "{\n" + ",\n".join(written) + "\n}\n"


def without_texts(value: Any) -> Any:
    """Without descriptions, which are sentences of others. A field of that name has a schema, and stays."""
    if isinstance(value, list):
        return [without_texts(one) for one in value]
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if not (key == "description" and isinstance(one, str))}
        return {key: without_texts(one) for key, one in kept.items()}
    return value


def main() -> int:
    """Write the files; returns the exit code."""
    try:
        folder = gobuild.module_folder("kubernetes", KUBERNETES) / "api" / "openapi-spec" / "v3"
    except gobuild.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    schemas = published(folder)
    for target, text in ((BUILTIN_SCHEMAS, kinds(schemas)), (POD_FIELDS, pod_fields(schemas))):
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
