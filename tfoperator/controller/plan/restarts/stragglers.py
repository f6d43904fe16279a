"""Reports slow replicas.

With `onStraggler: Restart`, this module also moves slow replicas, and replicas that fail on a node, to other nodes.
Pure. `status.progress` names the slow replicas. The operator ignores reports of a pod that has only just begun. The
operator reports a slow replica in one status write, and restarts the replica in a later sync.

`status.nodeFailures` records the failures by replica and node. The next pods of a replica avoid a node in three cases:
the replica has failed three times in a row on this node; its program has ended with an exit code that reports a broken
device; the replica is slow on this node. The operator writes this record together with the replica's count of restarts,
and only then deletes the pod. So each failure counts once. If a replica already avoids three nodes, the operator
regards the replica itself as the cause of its failures, and the replica avoids no more nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import msgspec

from tfoperator.api.fields.limits import MAX_NODE_FAILURES
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import has_condition
from tfoperator.api.v1.reasons import JobReason
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import Want, event, observation
from tfoperator.controller.plan.pod_ends.restart import ending_of, restarts_in_place
from tfoperator.controller.plan.replicas.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas.replicas import (
    Replica,
    ReplicaState,
    restarted_at_once,
    restarted_for_one_cause,
)

_DEVICE_EXIT_CODES = (201, 202)
"""Exit codes of programs that find their device broken (201), or find that a process that should have ended still uses
it (202). DLRover uses the same codes.
"""

_IN_A_ROW = _MAX_NODES = 3
_MIN_AGE = 20.0
"""A report counts only if its time is at least this number of seconds after the creation of the replica's pod. An
earlier report may come from the replica's previous pod, because the clocks of nodes and API server differ.
"""


def report_stragglers(facts: Facts) -> Iterator[Want]:
    """Set the condition Straggling, which names the slow replicas.

    Send an event for each node that a replica newly avoids, and an event when the condition becomes True. The condition
    does not contain the factors by which replicas are slow, so a change of a factor does not change the condition.
    `status.progress` has the factors.
    """
    before = facts.condition(ConditionType.STRAGGLING)
    for key, count in facts.node_failures.items():
        if count == _IN_A_ROW != facts.job.status.node_failures.get(key):
            why = "{} was slow, failed three times in a row, or had a broken device, on node {}".format(*key.split("/"))
            yield event(JobReason.NODE_AVOIDED, f"{why}: the operator will create its next pod on another node.")
    slow, key = _slow(facts), facts.job.metadata.key
    if slow:
        message = f"Steps of TFJob {key} take longer than the median for their replica type: {', '.join(slow)}."
        yield observation(ConditionType.STRAGGLING, message, holds=True)
        if before is None or before.status != "True":
            yield event(JobReason.STRAGGLING, message)
    elif before is not None:
        message = f"No replica of TFJob {key} is slow."
        yield observation(ConditionType.STRAGGLING, message, holds=False)


def moved(facts: Facts) -> Facts:
    """Decide which replicas restart on another node, and return the changed facts.

    The facts contain the nodes that each replica avoids, and the new record of failures on nodes.
    """
    noted: Mapping[str, int] = facts.job.status.node_failures
    slow = _slow(facts) if has_condition(facts.job, ConditionType.STRAGGLING) else ()
    restarted_as_slow: set[tuple[ReplicaType, int]] = set()
    groups = []
    for group in facts.groups:
        replicas = []
        for replica in group.replicas:
            name = group.name_of(replica)
            changed, noted = _moved(name, replica, noted, slow, is_suspended=facts.suspended)
            replicas.append(changed)
            if name in slow:
                restarted_as_slow.add((group.type, replica.index))
        groups.append(group.with_replicas(tuple(replicas)))
    kept = dict(sorted(noted.items(), key=lambda entry: entry[1])[-MAX_NODE_FAILURES:])
    return msgspec.structs.replace(facts, groups=restarted_for_one_cause(groups, restarted_as_slow), node_failures=kept)


def _moved(
    name: str, replica: Replica, noted: Mapping[str, int], slow: Container[str], *, is_suspended: bool
) -> tuple[Replica, Mapping[str, int]]:
    """Return the replica with the nodes that it avoids, and the new value of `status.nodeFailures`.

    `noted` is the present value of `status.nodeFailures`. If the replica is slow or fails on its node again and again,
    the returned replica restarts.
    """
    node = "" if replica.pod is None else replica.pod.spec.node_name
    own = {key.partition("/")[2]: count for key, count in noted.items() if key.startswith(f"{name}/")}
    avoided = [place for place, count in own.items() if count >= _IN_A_ROW]
    if node and not is_suspended and node not in avoided and len(avoided) < _MAX_NODES:
        count, replica = _failures(replica, is_slow=name in slow)
        if count:
            # This failure ends the rows of failures on other nodes, so the record of these rows is removed.
            count = min(count + own.get(node, 0), _IN_A_ROW)
            elsewhere = {f"{name}/{place}" for place in own if place not in avoided}
            noted = {**{key: value for key, value in noted.items() if key not in elsewhere}, f"{name}/{node}": count}
            if count == _IN_A_ROW:
                avoided.append(node)
    return (msgspec.structs.replace(replica, avoids=tuple(avoided)) if avoided else replica), noted


def _failures(replica: Replica, *, is_slow: bool) -> tuple[int, Replica]:
    """Return how many new failures the replica's pod shows, and the replica.

    A slow replica, or a broken device, counts as three failures at once, so that the replica avoids its node. If such a
    replica's pod still runs, the state of the returned replica requires a restart.
    """
    pod = replica.pod
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return 0, replica
    if pod.status.phase == "Running" and replica.state in (ReplicaState.RUNNING, ReplicaState.RESTARTING):
        last = termination_of(program_of(pod), last=True)
        by_device = last is not None and last.exit_code in _DEVICE_EXIT_CODES
        if not (is_slow or by_device or restarts_in_place(pod) >= _IN_A_ROW):
            return 0, replica
        cause = "is slow" if is_slow else "fails again and again on its node"
        return _IN_A_ROW, restarted_at_once(replica, cause)
    ending = ending_of(pod)
    if not replica.newly_restarting or ending.infrastructure or ending.exit_code is None:
        return 0, replica
    return (_IN_A_ROW if ending.exit_code in _DEVICE_EXIT_CODES else 1), replica


def _slow(facts: Facts) -> tuple[str, ...]:
    """Return the names of the running replicas that are slow."""
    reported, names = facts.observed.reported, []
    slow = {report.name: report for report in reported.slow} if reported is not None else {}
    for group in facts.groups if slow else ():
        for replica in group.replicas:
            report, pod = slow.get(group.name_of(replica)), replica.pod
            if report is not None and pod is not None and replica.state is ReplicaState.RUNNING:
                created, time = pod.metadata.creation_timestamp, report.last_updated_time
                if created is not None and time is not None and seconds_between(created, time) >= _MIN_AGE:
                    names.append(report.name)
    return tuple(names)
