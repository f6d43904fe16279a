"""Judges what foreign clients make of a job's status: the same as with the Go operator's own conditions.

Clients are known to read a status in five ways (`RULES`), and each way is a function here. `peer_conditions` is the
reference: the list of conditions that the Go operator keeps when the same happens to the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
Rule = Callable[[Json], object]

PEER_TYPES = ("Created", "Suspended", "Restarting", "Running", "Succeeded", "Failed")
"""The Go operator's types of conditions, in the order in which one sync of it sets them."""

_ENDS = ("Succeeded", "Failed")
_REPLACED_BY = {"Running": ("Restarting",), "Restarting": ("Running", "Suspended", "Succeeded", "Failed")}
"""Conditions that are dropped when another one becomes true.

The Go operator forgets to drop Restarting at a suspension and at an end: its clients then take a job that has ended for
a job that restarts. This is corrected here.
"""


def misled_clients(before: Sequence[Json], status: Json) -> Iterator[str]:
    """Yield what clients read differently in a status than from the Go operator's conditions, so far `before`."""
    conditions = status.get("conditions") or []
    reference = {**status, "conditions": peer_conditions(before, conditions)}
    for client, rule in RULES.items():
        actual, expected = rule(status), rule(reference)
        if actual != expected:
            types = [f"{condition['type']}={condition['status']}" for condition in conditions]
            yield f"{client} reads {actual!r} in {types}, and {expected!r} with the Go operator's conditions"


def peer_conditions(before: Sequence[Json], ours: Sequence[Json]) -> list[Json]:
    """The Go operator's conditions after the changes that lead to ours, if they were `before` until then."""
    true = {condition["type"]: condition for condition in ours if condition["status"] == "True"}
    items = list(before)
    for kind in PEER_TYPES:
        if kind in true and not _holds(items, "Failed"):
            items = _set(items, true[kind])
    for kind in PEER_TYPES:
        if kind not in true and _holds(items, kind):
            now = next((condition for condition in ours if condition["type"] == kind), None)
            items = [item for item in items if item["type"] != kind]
            items += [{**now, "status": "False"}] if now is not None else []
    return items


def _set(items: list[Json], condition: Json) -> list[Json]:
    """Add a true condition at the end, unless it is there; what it replaces goes, and an end ends Running."""
    kind = condition["type"]
    if _holds(items, kind):
        return items
    kept = [item for item in items if item["type"] != kind and kind not in _REPLACED_BY.get(item["type"], ())]
    if kind in _ENDS:
        kept = [{**item, "status": "False"} if item["type"] == "Running" else item for item in kept]
    return [*kept, condition]


def _holds(items: Sequence[Json], kind: str) -> bool:
    return any(item["type"] == kind and item["status"] == "True" for item in items)


def by_newest(status: Json) -> str:
    """Flyte's phase of a task: by the true condition that changed last; of several at once, by the first."""
    conditions: Sequence[Json] = status.get("conditions") or ()
    if not conditions:
        return "Queued"
    newest_first = sorted(
        conditions, key=lambda condition: str(condition.get("lastTransitionTime") or ""), reverse=True
    )
    current = next((condition["type"] for condition in newest_first if condition["status"] == "True"), "")
    return _FLYTE_PHASES.get(current, "Undefined: Invalid transition")


_FLYTE_PHASES = {
    "Created": "Queued",
    "Running": "Running",
    "Restarting": "Running",
    "Succeeded": "Success",
    "Failed": "RetryableFailure",
}


def by_last(status: Json) -> str:
    """The launcher of Kubeflow Pipelines: the last condition of the list, if it is an end."""
    conditions: Sequence[Json] = status.get("conditions") or ()
    last = conditions[-1] if conditions else {}
    return str(last["type"]) if last.get("type") in _ENDS and last["status"] == "True" else ""


def by_type(status: Json) -> Mapping[str, bool]:
    """Python SDKs, Arena and `kubectl wait`: whether any condition of a type is true."""
    return {kind: _holds(status.get("conditions") or (), kind) for kind in PEER_TYPES}


def by_counts(status: Json) -> tuple[bool, bool, bool]:
    """Old components: whether replicas of the leading type run, have succeeded, and whether any replica has failed."""
    counts: Mapping[str, Json] = status.get("replicaStatuses") or {}
    leading = next((counts[kind] for kind in ("Chief", "Master", "Worker") if kind in counts), {})
    failed = any(count.get("failed") for count in counts.values())
    return bool(leading.get("active")), bool(leading.get("succeeded")), failed


def by_kstatus(status: Json) -> str:
    """Helm with `--wait`, Flux and kpt: by the conditions that the library kstatus defines."""
    conditions: Sequence[Json] = status.get("conditions") or ()
    for condition in conditions:
        if condition["type"] == "Reconciling" and condition["status"] == "True":
            return "InProgress"
        if condition["type"] == "Stalled" and condition["status"] == "True":
            return "Failed"
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "")
    return "InProgress" if ready in ("False", "Unknown") else "Current"


def kstatus_of(job: Json) -> str:
    """Return kstatus' result for a whole job: by its conditions, unless the job's newest spec was not observed."""
    status: Json = job.get("status") or {}
    generation = job["metadata"].get("generation")
    observed = status.get("observedGeneration", generation)
    return by_kstatus(status) if observed == generation else "InProgress"


RULES: Mapping[str, Rule] = {
    "Flyte": by_newest,
    "Kubeflow Pipelines": by_last,
    "an SDK": by_type,
    "an old component": by_counts,
    "kstatus": by_kstatus,
}
