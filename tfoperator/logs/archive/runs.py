"""The runs of containers in a pod's status, the runs for which the logs can be fetched, and the runs in a record.

The module does no I/O. A container that was restarted in place has several runs. The kubelet keeps the logs of at most
the last two runs, which `kubectl logs` and `kubectl logs --previous` show. A run is identified by its number and its
end. The archive's record (`pod.json`) contains both. So after a restart, the operator knows which logs the archive has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.replicas.replica_pods import restarted_by_rule
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStatus
from tfoperator.logs.archive.layout import ArchivedPod

RunKey = tuple[str, int, int | None, datetime | None]
"""The container of a run, its number (of restarts before the run), its exit code and its end. If the exit code and the
end are None, the run has not ended.
"""

NO_RUNS: frozenset[RunKey] = frozenset()


class ArchivedRun(msgspec.Struct, frozen=True):
    """A run of a container, after `number` restarts. `end` is None while the container runs.

    `previous` is the value of the query parameter `previous` with which the API returns the log of this run. A run is
    `settled` if its log is complete, and if the same request still returns this log a moment later. If a run is not
    settled, the same request may return the log of the next run a moment later.
    """

    container: str
    number: int
    end: ContainerStateTerminated | None
    previous: bool = False
    settled: bool = True

    @property
    def key(self) -> RunKey:
        """The identity of the run within the pod."""
        if self.end is None:
            return self.container, self.number, None, None
        return self.container, self.number, self.end.exit_code, self.end.finished_at


def runs_of(pod: Pod) -> list[ArchivedRun]:
    """Return the runs for which logs can be fetched.

    Init containers come first. For each container, the newest run comes first.
    """
    return [run for status, init in containers_of(pod) for run in runs_of_container(pod, status, init=init)]


def containers_of(pod: Pod) -> Iterator[tuple[ContainerStatus, bool]]:
    """Yield the status of each container, and whether it is an init container."""
    for status in pod.status.init_container_statuses:
        yield status, True
    for status in pod.status.container_statuses:
        yield status, False


def runs_of_container(pod: Pod, status: ContainerStatus, *, init: bool) -> list[ArchivedRun]:
    """Return the runs of one container for which logs can be fetched, the newest run first.

    `init` is true for an init container.
    """
    name, number, state = status.name, status.restart_count, status.state
    last = status.last_state.terminated if status.last_state is not None else None
    if state is None or state.waiting is not None:
        # Between two runs, the restart count and the container's log still belong to the last run.
        return [] if last is None else [ArchivedRun(name, number, last)]
    end = state.terminated
    settled = end is not None and not _comes_back(pod, name, end, init=init)
    newest = ArchivedRun(name, number, end, settled=settled)
    return [newest] if last is None else [newest, ArchivedRun(name, number - 1, last, previous=True)]


def ready_runs(pod: Pod) -> list[ArchivedRun]:
    """Return the runs whose logs must be kept now: the settled runs (see `ArchivedRun`).

    If the pod is being deleted, return all runs, because the pod may soon be gone.
    """
    leaving = pod.metadata.deletion_timestamp is not None
    return [run for run in runs_of(pod) if run.settled or leaving]


def kept_runs(record: ArchivedPod | None) -> frozenset[RunKey]:
    """Return the runs for which a record has the complete log."""
    if record is None:
        return NO_RUNS
    whole = [run for container in record.containers if not container.problem for run in container.runs]
    return frozenset((run.name, run.restarts, run.exit_code, run.finished) for run in whole)


def _comes_back(pod: Pod, name: str, end: ContainerStateTerminated, *, init: bool) -> bool:
    """Return whether the kubelet is about to restart the container."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
        return False
    if name == DEFAULT_CONTAINER_NAME and restarted_by_rule(pod, end.exit_code):
        return True
    policy = pod.spec.restart_policy
    return (policy == "Always" and not init) or (policy in ("Always", "OnFailure") and end.exit_code != 0)
