"""Checks moves of replicas to another node: docs/tfjob.md, "Slow replicas and bad nodes"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hack.faults.oracle.history import JobHistory, PodHistory

Json = dict[str, Any]

_IN_A_ROW = _MOST_NODES = 3
_HOST = "kubernetes.io/hostname"


def moves(job: JobHistory, pod: PodHistory) -> bool:
    """Return whether a running pod may be deleted for its node: the status calls it slow, or it failed three times."""
    if job.run_policy.get("onStraggler") != "Restart":
        return False
    told = job.conditions().get("Straggling", {})
    named = told.get("message", "").rpartition(": ")[2].rstrip(".").split(", ")
    slow = told.get("status") == "True" and _name(pod) in named
    return slow or pod.in_place >= _IN_A_ROW


def check_nodes(job: JobHistory, pod: PodHistory, obj: Json) -> Iterator[str]:
    """Yield what is wrong with the nodes that a new pod avoids: nodes in the status, and nodes that failed it."""
    noted: Json = job.status.get("nodeFailures") or {}
    told = {key.partition("/")[2] for key, count in noted.items() if key.startswith(f"{_name(pod)}/")}
    told = {node for node in told if noted[f"{_name(pod)}/{node}"] >= _IN_A_ROW}
    found = _avoided(obj)
    if found != told:
        yield f"pod {pod.name} avoids the nodes {sorted(found)}, and the status tells {sorted(told)}"
    before = [one for one in job.pods.values() if one.replica == pod.replica and one is not pod][-_IN_A_ROW:]
    failed = [one.node for one in before if one.exit_code and not one.infrastructure and not one.reasons - {"failed"}]
    bad = failed[0] if len(failed) == _IN_A_ROW and len(set(failed)) == 1 else ""
    if job.run_policy.get("onStraggler") == "Restart" and bad and bad not in found and len(found) < _MOST_NODES:
        yield f"pod {pod.name} does not avoid {bad}, where {_name(pod)} has failed three times in a row"


def _name(pod: PodHistory) -> str:
    return f"{pod.replica[0].lower()}-{pod.replica[1]}"


def _avoided(obj: Json) -> set[str]:
    affinity = ((obj.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    asked = [
        expression
        for term in terms
        for expression in term.get("matchExpressions") or ()
        if expression.get("key") == _HOST
    ]
    return {node for one in asked if one.get("operator") == "NotIn" for node in one["values"]}
