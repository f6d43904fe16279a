"""Turns events of ResourceFlavors into keys of the jobs to sync."""

from __future__ import annotations

from collections.abc import Callable

from tfoperator.api.kueue.workloads import Workload
from tfoperator.controller.kueue.left import key_of
from tfoperator.controller.kueue.objects import Flavor
from tfoperator.informers import Lister


class FlavorHandler:
    """Queues the jobs that were admitted with a flavor, when the flavor appears, changes or disappears.

    The pods of these jobs get the flavor's labels and tolerations. If the flavor does not exist, or contradicts a pod
    template, the operator creates no more pods for such a job, so the job waits for the next change of the flavor.
    Flavors rarely change, so the handler has no index, and looks through all Workloads.
    """

    def __init__(self, workloads: Lister[Workload], enqueue: Callable[[str], None]) -> None:
        self._workloads = workloads
        self._enqueue = enqueue

    def on_add(self, obj: Flavor) -> None:
        """Queue the jobs whose Workload names the flavor in its admission, and has not finished."""
        found = (workload for workload in self._workloads.list() if _uses(workload, obj.metadata.name))
        for key in dict.fromkeys(filter(None, map(key_of, found))):
            self._enqueue(key)

    def on_update(self, old: Flavor, new: Flavor) -> None:
        """Queue these jobs, if the flavor's spec has changed. The cache can't show this for a flavor that is too large.

        An event without a new resourceVersion is ignored: it is a resync, and the reconciler handles resyncs.
        """
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if not new.is_whole or (old.spec, old.is_whole) != (new.spec, new.is_whole):
            self.on_add(new)

    def on_delete(self, obj: Flavor) -> None:
        """Queue these jobs: they get no more pods until the flavor exists again."""
        self.on_add(obj)


def _uses(workload: Workload, flavor: str) -> bool:
    admission = workload.status.admission
    if admission is None or workload.is_true("Finished"):
        return False
    return any(flavor in assignment.flavors.values() for assignment in admission.pod_set_assignments)
