"""The CustomResourceDefinition of TFJob, made from the types.

Its schema is as large as it is useful (every write costs the API server in proportion): everything that is ours, and of
the pod template the containers' names, images and ports; the rest of the template stays open and is checked when pods
are made.
"""

from __future__ import annotations

from typing import Any

import yaml

from tfoperator.api.names import MAX_NAME_LENGTH
from tfoperator.api.rules import NAME_PATTERN
from tfoperator.api.schema import Schema, struct_schema
from tfoperator.api.schema_fields import TABLE
from tfoperator.api.v1.types import TFJOBS, ReplicaType, TFJobSpec, TFJobStatus

__all__ = ["crd", "crd_yaml", "openapi_schema"]

# The names of one type's replicas all fit if that of its highest index does.
_HIGHEST = "string(self.spec.tfReplicaSpecs[type].replicas > 1 ? self.spec.tfReplicaSpecs[type].replicas - 1 : 0)"
_LENGTH = f"size(self.metadata.name) + size(type) + size({_HIGHEST}) + 2"

_PRINTER_COLUMNS = (
    ("State", "string", ".status.conditions[-1:].type", 0, "The latest condition."),
    ("Ready", "string", ".status.ready", 1, "Replicas that are ready, of all."),
    ("Restarts", "integer", ".status.restarts", 1, "How often replicas were started again."),
    ("Age", "date", ".metadata.creationTimestamp", 0, ""),
)


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition as plain data, new at each call."""
    names = {
        "kind": TFJOBS.kind,
        "listKind": f"{TFJOBS.kind}List",
        "plural": TFJOBS.plural,
        "singular": "tfjob",
        "shortNames": ["tfj"],
        "categories": ["all", "kubeflow"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{TFJOBS.plural}.{TFJOBS.group}"},
        "spec": {
            "group": TFJOBS.group,
            "names": names,
            "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "versions": [
                {
                    "name": TFJOBS.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": _scale()},
                    "additionalPrinterColumns": [_column(*column) for column in _PRINTER_COLUMNS],
                    "schema": {"openAPIV3Schema": openapi_schema()},
                }
            ],
        },
    }


def crd_yaml() -> str:
    """The CustomResourceDefinition as YAML, the same text at each call."""
    return yaml.safe_dump(crd(), sort_keys=False, width=120, allow_unicode=True)


def openapi_schema() -> Schema:
    """The structural schema of a whole TFJob, as plain data, new at each call."""
    return {
        "description": "A distributed TensorFlow training job.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Named so that the rules below can point at it and cost little. Every API server has this bound for all
            # names; a closer one would also refuse writes of the status.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": struct_schema(TFJobSpec, TABLE),
            "status": struct_schema(TFJobStatus, TABLE),
        },
        "x-kubernetes-validations": _name_rules(),
    }


def _scale() -> dict[str, str]:
    # Of the workers: whoever scales a training job means them. The same paths as of the Go operator's elastic kind.
    workers = f"tfReplicaSpecs.{ReplicaType.WORKER}", f"replicaStatuses.{ReplicaType.WORKER}"
    return {
        "specReplicasPath": f".spec.{workers[0]}.replicas",
        "statusReplicasPath": f".status.{workers[1]}.active",
        "labelSelectorPath": f".status.{workers[1]}.selector",
    }


def _name_rules() -> list[dict[str, str]]:
    # A job that has a status was let in before: refusing it now would only keep the operator from saying in that
    # status what is wrong. API servers drop the status of an object that is created, so none slips in.
    # The messages are fixed: what a computed one might cost is estimated beyond the budget.
    return [
        {
            "rule": f"has(self.status) || self.metadata.name.matches('{NAME_PATTERN}')",
            "message": "metadata.name must consist of lower-case letters, digits and '-', start with a letter and end "
            "with a letter or digit",
            "fieldPath": ".metadata.name",
        },
        {
            "rule": f"has(self.status) || self.spec.tfReplicaSpecs.all(type, {_LENGTH} <= {MAX_NAME_LENGTH})",
            "message": f"metadata.name is too long: {{name}}-{{type}}-{{index}} must have at most {MAX_NAME_LENGTH} "
            "characters",
            "fieldPath": ".metadata.name",
        },
    ]


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if priority:
        column["priority"] = priority
    if description:
        column["description"] = description
    return column
