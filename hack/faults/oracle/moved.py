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
    condition = job.conditions().get("Straggling", {})
    named = condition.get("message", "").rpartition(": ")[2].rstrip(".").split(", ")
    slow = condition.get("status") == "True" and _name(pod) in named
    return slow or pod.in_place >= _IN_A_ROW


def check_nodes(job: JobHistory, pod: PodHistory, obj: Json) -> Iterator[str]:
    """Yield what is wrong with the nodes that a new pod avoids: nodes in the status, and nodes that failed it."""
    noted: Json = job.status.get("nodeFailures") or {}
    expected = {key.partition("/")[2] for key, count in noted.items() if key.startswith(f"{_name(pod)}/")}
    expected = {node for node in expected if noted[f"{_name(pod)}/{node}"] >= _IN_A_ROW}
    avoided = _avoided(obj)
    if avoided != expected:
        yield f"pod {pod.name} avoids the nodes {sorted(avoided)}, and the status names {sorted(expected)}"
    before = [other for other in job.pods.values() if other.replica == pod.replica and other is not pod][-_IN_A_ROW:]
    failed = [
        other.node
        for other in before
        if other.exit_code and not other.infrastructure and not other.reasons - {"failed"}
    ]
    bad = failed[0] if len(failed) == _IN_A_ROW and len(set(failed)) == 1 else ""
    if job.run_policy.get("onStraggler") == "Restart" and bad and bad not in avoided and len(avoided) < _MOST_NODES:
        yield f"pod {pod.name} does not avoid {bad}, where {_name(pod)} has failed three times in a row"


def _name(pod: PodHistory) -> str:
    return f"{pod.replica[0].lower()}-{pod.replica[1]}"


def _avoided(obj: Json) -> set[str]:
    affinity = ((obj.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    expressions = [
        expression
        for term in terms
        for expression in term.get("matchExpressions") or ()
        if expression.get("key") == _HOST
    ]
    return {
        node for expression in expressions if expression.get("operator") == "NotIn" for node in expression["values"]
    }
