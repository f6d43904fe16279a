"""The CustomResourceDefinition of TFJob, made from the types.

Its schema is as large as it is useful (every write costs the API server in proportion): everything that is ours, and of
the pod template the containers' names, images and ports; the rest of the template stays open and is checked when pods
are made.
"""

from __future__ import annotations

from typing import Any

import yaml

from tfoperator.api.cel_rules import CHANGED_JOB_RULES, NEW_JOB_RULES
from tfoperator.api.schema import Schema, struct_schema
from tfoperator.api.schema_fields import TABLE
from tfoperator.api.v1.types import TFJOBS, ReplicaType, TFJobSpec, TFJobStatus

__all__ = ["crd", "crd_yaml", "openapi_schema"]

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
        "x-kubernetes-validations": [dict(rule) for rule in (*NEW_JOB_RULES, *CHANGED_JOB_RULES)],
    }


def _scale() -> dict[str, str]:
    # Of the workers: whoever scales a training job means them. The same paths as of the Go operator's elastic kind.
    workers = f"tfReplicaSpecs.{ReplicaType.WORKER}", f"replicaStatuses.{ReplicaType.WORKER}"
    return {
        "specReplicasPath": f".spec.{workers[0]}.replicas",
        "statusReplicasPath": f".status.{workers[1]}.active",
        "labelSelectorPath": f".status.{workers[1]}.selector",
    }


def _column(name: str, kind: str, path: str, priority: int, description: str) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if priority:
        column["priority"] = priority
    if description:
        column["description"] = description
    return column
