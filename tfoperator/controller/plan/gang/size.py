"""How large a job's gang is: how many pods must find room at once, and what they ask for together.

`minAvailable` pods, by default all. Of a job that needs fewer than it has, those count that its scheduler would take
first: by the priority of their PriorityClass, then chief, master, parameter servers, workers, evaluators, then by
index. (The Go operator takes what the random order of Go's maps gives.) Replicas that have ended need no room any
more, and schedulers don't see their pods: counted in, they would keep a restarted replica waiting for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tfoperator.api.v1.types import ReplicaType, SchedulingPolicy
from tfoperator.controller.plan.replicas import Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.pods import PodGroup, Resources, Template, pod_requests

_ORDER = {
    kind: rank
    for rank, kind in enumerate(
        (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.PS, ReplicaType.WORKER, ReplicaType.EVALUATOR)
    )
}


class GangSize(msgspec.Struct, frozen=True):
    """The pods that must find room at once, and the sum of their requests."""

    members: int
    resources: dict[str, str] | dict[str, str | int]


def gang_size(
    policy: SchedulingPolicy,
    groups: Sequence[ReplicaGroup],
    current: PodGroup | None,
    priorities: Mapping[str, int],
    template: Callable[[ReplicaGroup], Template],
) -> GangSize:
    """The size that the job's PodGroup should have. Raises TemplateError if a template's requests can't be read.

    As long as nothing needs a node, a PodGroup that is large enough and not larger than asked for stays as it is:
    each replica that completes would be a patch, and templates would have to be read at every sync.
    """
    total = sum(group.size for group in groups)
    asked = total if policy.min_available is None else policy.min_available
    todo = [(group, replica) for group in groups for replica in group.replicas if not _is_done(replica)]
    # More than there are is what was asked for: such a job waits, and says why.
    members = asked if asked > total else min(asked, len(todo))
    given = policy.min_resources
    if current is not None and members <= current.spec.min_member <= asked and not _needs_room(todo):
        return GangSize(current.spec.min_member, current.spec.min_resources if given is None else given)
    if given is not None:
        return GangSize(members, given)

    def precedence(item: tuple[ReplicaGroup, Replica]) -> tuple[int, int, int]:
        group, replica = item
        return (-_priority(template(group), priorities), _ORDER[group.type], replica.index)

    chosen = todo if members >= len(todo) else sorted(todo, key=precedence)[:members]
    counts = Counter(group.type for group, _ in chosen)
    resources = Resources()
    for group in groups:
        if counts[group.type]:
            resources.add(pod_requests(template(group)), counts[group.type])
    return GangSize(members, resources.quantities())


def _is_done(replica: Replica) -> bool:
    return replica.state in (ReplicaState.SUCCEEDED, ReplicaState.FAILED)


def _needs_room(todo: Sequence[tuple[ReplicaGroup, Replica]]) -> bool:
    return any(replica.pod is None or not replica.pod.spec.node_name or _must_move(replica) for _, replica in todo)


def _must_move(replica: Replica) -> bool:
    return replica.state in (ReplicaState.RESTARTING, ReplicaState.LEAVING)


def _priority(template: Template, priorities: Mapping[str, int]) -> int:
    name = template.spec.get("priorityClassName")
    return priorities.get(name if isinstance(name, str) else "", 0)
