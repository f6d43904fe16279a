"""The environment of TFJobs in a cluster with the Go operator, and the tasks that a migration needs there. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.views.objects import Pod

OTHER_KINDS = ("jaxjobs", "mpijobs", "paddlejobs", "pytorchjobs", "xgboostjobs")
"""The other kinds that the Go operator handles, by the plural names of their CRDs."""

GO_OPERATOR = "control-plane=kubeflow-training-operator"
"""The label selector for the Go operator's Deployment, which has this label in the Go operator's manifests since 1.3.
"""

_OUR_SHORT_NAME = "tfj"


class Unread(msgspec.Struct, frozen=True):
    """A fact that could not be read, and why."""

    what: str
    reason: str


class ClusterFacts(msgspec.Struct, frozen=True):
    """The facts about a cluster.

    None means that the fact is absent or could not be read; `unread` lists the facts that could not be read. `crd` is
    the CRD of TFJobs. `other_kinds` has the other kinds of the Go operator that have a CRD in the cluster. `operators`
    has the Deployments of the Go operator. `webhooks` has the cluster's validating webhook configurations.
    """

    jobs: tuple[dict[str, Any], ...] = ()
    pods: tuple[Pod, ...] | None = None
    crd: dict[str, Any] | None = None
    other_kinds: tuple[str, ...] = ()
    operators: tuple[dict[str, Any], ...] = ()
    webhooks: tuple[dict[str, Any], ...] = ()
    unread: tuple[Unread, ...] = ()


def cluster_findings(facts: ClusterFacts) -> tuple[Finding, ...]:
    """Return the tasks that concern the cluster and not a single job.

    If a fact could not be read, the finding reports this; it does not report that the fact is absent.
    """
    findings = [*_operators(facts), *_webhooks(facts), *_crd(facts)]
    roles = "removing the Go operator also removes its aggregated roles (kubeflow-training-edit, ...)"
    todo = "apply manifests/base/user-roles.yaml, which gives the same rights to the ClusterRoles edit, admin and view"
    findings.append(Finding(Effort.NOTE, "RBAC", roles, todo))
    findings += [
        Finding(Effort.NOTE, unread.what, f"could not be checked: {unread.reason}", "look yourself")
        for unread in facts.unread
    ]
    return tuple(findings)


def _operators(facts: ClusterFacts) -> Iterator[Finding]:
    for deployment in facts.operators:
        metadata, spec = _part(deployment, "metadata"), _part(deployment, "spec")
        name = f"{metadata.get('namespace')}/{metadata.get('name')}"
        if spec.get("replicas", 1) == 0:
            yield Finding(Effort.NOTE, f"Deployment {name}", "the Go operator is stopped")
            continue
        if not facts.other_kinds:
            scale = f"kubectl -n {metadata.get('namespace')} scale deployment/{metadata.get('name')} --replicas=0"
            todo = f"stop the Go operator before you start tfoperator: {scale}"
        elif _leaves_tfjobs(deployment):
            yield Finding(Effort.NOTE, f"Deployment {name}", "the Go operator is running, but not for TFJobs")
            continue
        else:
            kinds = ", ".join(facts.other_kinds)
            todo = (
                f"limit the Go operator to the kinds that you use (of {kinds}): in its Deployment, add a flag "
                "--enable-scheme=KIND for each kind"
            )
        message = "the Go operator is running: if both operators run, both act on the same jobs"
        yield Finding(Effort.ACTION, f"Deployment {name}", message, todo)


def _leaves_tfjobs(deployment: dict[str, Any]) -> bool:
    """Return whether the flags of the Go operator enable certain kinds, but not TFJob."""
    containers = _part(_part(_part(deployment, "spec"), "template"), "spec").get("containers") or []
    words = [
        str(word)
        for container in containers
        for word in [*(container.get("command") or []), *(container.get("args") or [])]
    ]
    text = " ".join(words).lower()
    return "--enable-scheme" in text and "tfjob" not in text


def _webhooks(facts: ClusterFacts) -> Iterator[Finding]:
    for configuration in facts.webhooks:
        name = _part(configuration, "metadata").get("name")
        for webhook in configuration.get("webhooks") or []:
            if not any(_is_about_tfjobs(rule) for rule in webhook.get("rules") or []):
                continue
            refuses = webhook.get("failurePolicy", "Fail") == "Fail"
            message = f"webhook {webhook.get('name')} checks TFJobs" + (
                ". While no server answers this webhook (for example after the Go operator is stopped), API servers "
                "refuse all TFJobs"
                if refuses
                else ""
            )
            todo = "remove this webhook from the configuration when the Go operator no longer runs TFJobs"
            field = f"ValidatingWebhookConfiguration {name}"
            yield Finding(Effort.ACTION if refuses else Effort.CHANGE, field, message, todo)


def _is_about_tfjobs(rule: dict[str, Any]) -> bool:
    groups, resources = rule.get("apiGroups") or [], rule.get("resources") or []
    return bool({TFJOBS.group, "*"} & set(groups)) and bool({TFJOBS.plural, "*", "*/*"} & set(resources))


def _crd(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.crd is None:
        return
    field = f"CustomResourceDefinition {CRD_NAME}"
    names = _part(_part(facts.crd, "spec"), "names")
    stored = _part(facts.crd, "status").get("storedVersions") or []
    foreign = [version for version in stored if version != TFJOBS.version]
    if foreign:
        message = (
            f"status.storedVersions contains {', '.join(foreign)}: the API server refuses a CRD without these versions"
        )
        todo = "convert the stored jobs to v1, then remove these versions from status.storedVersions: docs/versions.md"
        yield Finding(Effort.ACTION, field, message, todo)
    if _OUR_SHORT_NAME not in (names.get("shortNames") or []):
        message = "is the CRD of the Go operator: with it, API servers drop the fields that only tfoperator has"
        todo = "tfoperator crd | kubectl apply --server-side --force-conflicts -f -"
        yield Finding(Effort.CHANGE, field, message, todo)


def _part(obj: dict[str, Any], name: str) -> dict[str, Any]:
    value = obj.get(name)
    return value if isinstance(value, dict) else {}
