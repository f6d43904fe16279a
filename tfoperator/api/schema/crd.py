"""The CustomResourceDefinition of TFJob, made from the types.

Its schema has all fields of a job and of its pod templates, with their types and meaning. So API servers refuse a
misspelt field when a user applies a job. If Kubernetes is newer than this module's table of Kubernetes' types, API
servers would also refuse new fields of pods. For that case, `open_templates` allows any field in a template, and
describes only names, images and ports of containers.

By default only v1 is served: v1alpha2 needs the operator's conversion webhook, and without the webhook API servers
could neither read nor write v1alpha2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tfoperator.api.loading import to_yaml
from tfoperator.api.replicas.names import CONVERSION_PATH, SYSTEM_NAMESPACE, WEBHOOK_SERVICE
from tfoperator.api.schema.cel_rules import V1_RULES
from tfoperator.api.schema.fields import OPEN_TABLE, TABLE
from tfoperator.api.schema.structs import Schema, struct_schema
from tfoperator.api.schema.v1alpha2 import v1alpha2_schema
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJOBS, TFJobSpec


class PrinterColumn(NamedTuple):
    """A column of `kubectl get tfjobs`; with `wide`, only of `-o wide`. Some columns need no description."""

    name: str
    type: str
    path: str
    description: str = ""
    wide: bool = False


PRINTER_COLUMNS = (
    PrinterColumn("State", "string", ".status.conditions[-1:].type", "The latest condition."),
    PrinterColumn(
        "Ready", "string", ".status.ready", "Number of replicas that are ready, and number of all replicas.", wide=True
    ),
    PrinterColumn(
        "Restarts",
        "integer",
        ".status.restarts",
        "Number of restarts, after failures and after disruptions.",
        wide=True,
    ),
    PrinterColumn("Disruptions", "integer", ".status.disruptions", "Number of restarts after disruptions.", wide=True),
    PrinterColumn("Progress", "string", ".status.progress.completion", "Share of the training that is done."),
    PrinterColumn("ETA", "string", ".status.progress.eta", "Estimated time until the end."),
    PrinterColumn(
        "Goodput", "string", ".status.usage.goodput", "Share of the time in which the job trained.", wide=True
    ),
    PrinterColumn(
        "Stalled",
        "string",
        f'.status.operatorConditions[?(@.type=="{ConditionType.STALLED}")].status',
        "Whether the job makes no progress.",
        wide=True,
    ),
    PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
)
"""The columns in the CRD, in the output of `kubectl get`, and in docs/conditions.md."""


def crd(*, all_versions: bool = False, webhook_url: str = "", open_templates: bool = False) -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain data; each call returns a new object.

    With `all_versions`, v1alpha2 is served, too. Then API servers call the conversion webhook of the operator that is
    deployed as in manifests/, or the webhook at `webhook_url`. With `open_templates`, a pod template may have fields
    that this module does not know.
    """
    schema = openapi_schema(open_templates=open_templates)
    versions = [_version(TFJOBS.version, schema, "replicaStatuses", storage=True)]
    if all_versions:
        versions.append(_version("v1alpha2", v1alpha2_schema(schema), "tfReplicaStatuses", storage=False))
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
            "conversion": _conversion(webhook_url) if all_versions else {"strategy": "None"},
            "versions": versions,
        },
    }


def crd_yaml(*, all_versions: bool = False, webhook_url: str = "", open_templates: bool = False) -> str:
    """Return the CustomResourceDefinition as YAML; each call returns the same text.

    The options are the same as in `crd`.
    """
    return to_yaml([crd(all_versions=all_versions, webhook_url=webhook_url, open_templates=open_templates)])


def versions_patch_yaml() -> str:
    """Return a JSON patch (YAML, for kustomize) that turns the CRD with only v1 into the CRD with all versions."""
    v1alpha2, conversion = crd(all_versions=True)["spec"]["versions"][1], _conversion()
    patch = [
        {"op": "add", "path": "/spec/versions/-", "value": v1alpha2},
        {"op": "replace", "path": "/spec/conversion", "value": conversion},
    ]
    return to_yaml([patch])


_SPEC_PATH = "/spec/versions/{}/schema/openAPIV3Schema/properties/spec"


def open_templates_patch_yaml(*, older: bool = False) -> str:
    """Return a JSON patch (YAML, for kustomize) that opens the pod templates of v1 in the CRD for unknown fields.

    With `older`, the patch is for v1alpha2, the second version in the CRD with all versions.
    """
    number = 1 if older else 0
    version = crd(all_versions=True, open_templates=True)["spec"]["versions"][number]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return to_yaml([[{"op": "replace", "path": _SPEC_PATH.format(number), "value": spec}]])


def _version(name: str, schema: Schema, statuses: str, *, storage: bool) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {"status": {}, "scale": _scale(statuses)},
        "additionalPrinterColumns": [_column(column) for column in PRINTER_COLUMNS],
        "schema": {"openAPIV3Schema": schema},
    }


def _conversion(url: str = "") -> dict[str, Any]:
    service = {"namespace": SYSTEM_NAMESPACE, "name": WEBHOOK_SERVICE, "path": CONVERSION_PATH, "port": 443}
    webhook = {"clientConfig": {"url": url} if url else {"service": service}, "conversionReviewVersions": ["v1"]}
    return {"strategy": "Webhook", "webhook": webhook}


def openapi_schema(*, open_templates: bool = False) -> Schema:
    """Return the structural schema of a whole TFJob as plain data; each call returns a new object."""
    table = OPEN_TABLE if open_templates else TABLE
    return {
        "description": "A distributed TensorFlow training job.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # The rules below refer to `metadata.name`, so the schema must have it. `maxLength` keeps the estimated cost
            # of the rules low. Every API server has this limit for all names. With a lower limit, API servers would
            # also refuse status writes of jobs with longer names.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": struct_schema(TFJobSpec, table),
            "status": struct_schema(TFJobStatus, table),
        },
        "x-kubernetes-validations": [dict(rule) for rule in V1_RULES],
    }


def _scale(statuses: str) -> dict[str, str]:
    # The number of workers: to scale a training job means to change this number. The paths are as in the Go operator.
    workers = f"tfReplicaSpecs.{ReplicaType.WORKER}", f"{statuses}.{ReplicaType.WORKER}"
    return {
        "specReplicasPath": f".spec.{workers[0]}.replicas",
        "statusReplicasPath": f".status.{workers[1]}.active",
        "labelSelectorPath": f".status.{workers[1]}.selector",
    }


def _column(column: PrinterColumn) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.wide:
        entry["priority"] = 1
    if column.description:
        entry["description"] = column.description
    return entry
