"""Tells of slow replicas; under `onStraggler: Restart` has these, and those that fail on a node, made elsewhere. Pure.

`status.progress` says who is slow; a report of a pod that has just begun says nothing yet. A slow replica is told of in
one status write, and restarted in a later one, by the existing means: it is marked as lost.

`status.nodeFailures` is the memory. After three failures of a replica in a row on one node, after an exit code by which
a program tells of its device, or when it is slow there, its next pods avoid the node. That is written with the count of
its restarts, before the pod is deleted, so each failure counts once. One that avoids three nodes is itself the reason.
"""

from __future__ import annotations

import re

from tfoperator.api.job_conditions import has_condition
from tfoperator.api.limits import MAX_NODE_FAILURES
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.reasons import JobReason
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas import Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.plan.restart import ending_of, restarts_in_place
from tfoperator.controller.plan.verdict import Situation

_DEVICE_EXIT_CODES = (201, 202)
"""Of programs that find their device broken, or in use by a process that should be gone: DLRover's."""

_IN_A_ROW = _MAX_NODES = 3
_MIN_AGE = 20.0
"""Seconds from a pod's creation to the first report that counts: clocks differ by less, and a pace takes longer."""


def report_stragglers(draft: Draft, known: Situation) -> None:
    """Set the condition Straggling, which isn't written again for another factor; tell what is new, an event each."""
    for key, count in known.node_failures.items():
        if count == _IN_A_ROW != draft.job.status.node_failures.get(key):
            why = "{} was slow, failed three times in a row, or by its device, on node {}".format(*key.split("/"))
            draft.event(JobReason.NODE_AVOIDED, f"{why}: it is made anew on another node.")
    slow, before = _slow(known), draft.conditions.get(ConditionType.STRAGGLING)
    told = re.findall(r"([\w-]+) \(", before.message) if before is not None and before.status == "True" else []
    names = ", ".join(f"{name} ({factor} times)" for name, factor in slow.items())
    message = f"Steps of TFJob {draft.key} take longer than the median of the replica's type: {names}."
    if slow and told != list(slow):
        draft.conditions.set(ConditionType.STRAGGLING, "True", JobReason.SLOW_REPLICA, message)
        if not told:
            draft.event(JobReason.STRAGGLING, message)
    elif before is not None and not slow:
        message = f"No replica of TFJob {draft.key} is slow."
        draft.conditions.set(ConditionType.STRAGGLING, "False", JobReason.NO_SLOW_REPLICA, message)


def move_replicas(known: Situation) -> dict[str, int]:
    """Restart what is to run elsewhere, and have each replica avoid its nodes; return what is to be remembered."""
    status = known.job.status
    noted = dict(status.node_failures)
    slow = _slow(known) if has_condition(known.job, ConditionType.STRAGGLING) else {}
    for group in known.groups:
        for replica in group.replicas:
            name, node = group.name_of(replica), "" if replica.pod is None else replica.pod.spec.node_name
            own = {key.partition("/")[2]: noted[key] for key in noted if key.startswith(f"{name}/")}
            avoided = [one for one, count in own.items() if count >= _IN_A_ROW]
            if node and not known.suspended and node not in avoided and len(avoided) < _MAX_NODES:
                count = _failures(group, replica, is_slow=name in slow)
                for other in own if count else ():
                    if other not in avoided:
                        # What it has counted elsewhere is in a row no more.
                        count += noted.pop(f"{name}/{other}") * (other == node)
                if count:
                    noted[f"{name}/{node}"] = count = min(count, _IN_A_ROW)
                    avoided += [node] * (count == _IN_A_ROW)
            replica.avoids = tuple(avoided)
        group.add_up()
    return dict(sorted(noted.items(), key=lambda one: one[1])[-MAX_NODE_FAILURES:])


def _failures(group: ReplicaGroup, replica: Replica, *, is_slow: bool) -> int:
    """Return how many new failures the replica's pod tells of; restart one that runs, but not on its node again."""
    pod = replica.pod
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return 0
    if pod.status.phase == "Running" and replica.state in (ReplicaState.RUNNING, ReplicaState.RESTARTING):
        last = termination_of(program_of(pod), last=True)
        by_device = last is not None and last.exit_code in _DEVICE_EXIT_CODES
        if not (is_slow or by_device or restarts_in_place(pod) >= _IN_A_ROW):
            return 0
        group.restart_running(replica, "is slow" if is_slow else "fails again and again on its node")
        return _IN_A_ROW
    ending = ending_of(pod)
    if not replica.newly_restarting or ending.infrastructure or ending.exit_code is None:
        return 0
    return _IN_A_ROW if ending.exit_code in _DEVICE_EXIT_CODES else 1


def _slow(known: Situation) -> dict[str, str]:
    """Return by how much the replicas are slow that run and are."""
    reported, found = known.observed.reported, {}
    slow = {one.name: one for one in reported.slow} if reported is not None else {}
    for group in known.groups if slow else ():
        for replica in group.replicas:
            one, pod = slow.get(group.name_of(replica)), replica.pod
            if one is not None and pod is not None and replica.state is ReplicaState.RUNNING:
                created, time = pod.metadata.creation_timestamp, one.last_updated_time
                if created is not None and time is not None and seconds_between(created, time) >= _MIN_AGE:
                    found[one.name] = one.factor
    return found
