"""Generates the files of the Helm chart that have the same content as the kustomize manifests.

A chart can't read files outside its folder, so these files are copies. The CRD is generated from the types. The rules
of every role, the alerts and the dashboard are copied from the kustomize manifests. The templates of the chart read the
copies through `.Files`. So people write rights and alerts only once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tfoperator.api.schema.crd import crd, crd_yaml, versions_patch_yaml

MANIFESTS = Path(__file__).resolve().parent.parent / "manifests"
CHART = MANIFESTS / "helm" / "tfoperator"

_HEADER = "# Made by hack/generate.py from {}; change that instead.\n"

ROLES = {
    "operator": ("base/rbac.yaml", "ClusterRole", "tfoperator"),
    "leader-election": ("base/rbac.yaml", "Role", "tfoperator-leader-election"),
    "user-edit": ("base/user-roles.yaml", "ClusterRole", "tfoperator-tfjobs-edit"),
    "user-view": ("base/user-roles.yaml", "ClusterRole", "tfoperator-tfjobs-view"),
    "priority-classes": ("components/volcano/rbac.yaml", "ClusterRole", "tfoperator-volcano"),
    "kueue-classes": ("components/kueue/rbac.yaml", "ClusterRole", "tfoperator-kueue"),
    "metrics-auth": ("components/metrics-secure/rbac.yaml", "ClusterRole", "tfoperator-metrics-auth"),
    "metrics-reader": ("components/metrics-secure/rbac.yaml", "ClusterRole", "tfoperator-metrics-reader"),
    "webhook-secret": ("components/webhook/rbac.yaml", "Role", "tfoperator-webhook"),
    "progress-secret": ("components/progress/rbac.yaml", "Role", "tfoperator-progress"),
    "progress-keys": ("components/progress/rbac.yaml", "ClusterRole", "tfoperator-progress"),
    "webhook-crd": ("components/webhook/rbac.yaml", "ClusterRole", "tfoperator-webhook"),
}
"""Each role's name in the chart: the file that has it, its kind and its name there."""

ADDED = ("log-archive", "hang-detection", "stall-stacks", "volcano", "scheduler-plugins", "kubernetes-gangs", "kueue")
"""The components that add rules to the operator's own role; in the chart, the rules have the component's name."""


def chart_files() -> dict[Path, str]:
    """Every generated file of the chart and what it should hold."""
    monitoring = MANIFESTS / "components" / "monitoring"
    alerts = yaml.safe_load((monitoring / "rules.yaml").read_text())["spec"]
    more = {operation["path"]: operation["value"] for operation in yaml.safe_load(versions_patch_yaml())}
    versions = {"version": more["/spec/versions/-"], "conversion": more["/spec/conversion"]}
    files = CHART / "files"
    return {
        files / "crd.yaml": _HEADER.format("tfoperator/api") + crd_yaml(),
        files / "crd-versions.yaml": _HEADER.format("tfoperator/api") + _dump(versions),
        files / "crd-open-templates.yaml": _HEADER.format("tfoperator/api") + _dump(_open_specs()),
        files / "rbac.yaml": _HEADER.format("the roles in manifests/") + _dump(roles()),
        files / "rules.yaml": _HEADER.format("manifests/components/monitoring/rules.yaml") + _dump(alerts),
        files / "dashboard.json": (monitoring / "dashboard.json").read_text(),
    }


def _open_specs() -> dict[str, Any]:
    """The schema of the spec with open pod templates, by version."""
    return {
        version["name"]: version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for version in crd(all_versions=True, open_templates=True)["spec"]["versions"]
    }


def roles() -> dict[str, list[dict[str, Any]]]:
    """The rules of each role, by the name that the chart's templates know it by."""
    rules_by_role = {name: _rules(*where) for name, where in ROLES.items()}
    for name in ADDED:
        component = yaml.safe_load((MANIFESTS / "components" / name / "kustomization.yaml").read_text())
        (patch,) = (entry["patch"] for entry in component["patches"] if "Role" in entry["target"]["kind"])
        rules_by_role[name] = [operation["value"] for operation in yaml.safe_load(patch)]
    return rules_by_role


def _rules(file: str, kind: str, name: str) -> list[dict[str, Any]]:
    for document in yaml.safe_load_all((MANIFESTS / file).read_text()):
        if (document["kind"], document["metadata"]["name"]) == (kind, name):
            return list(document["rules"])
    raise LookupError(f"manifests/{file} has no {kind} {name}: hack/chart.py names where the chart's rules come from")


def _dump(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=120)
