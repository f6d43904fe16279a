"""The double check: compares caches with the live state, with backoff and bounded cost, and repairs.

The set of jobs as such has its own entry in the schedule, and the thread wakes for it by itself: a job that is missing
in the cache has no resync, and without another job nothing else would cause a comparison.

Workloads that have outlived their jobs (`controller/kueue/left.py`) are looked at with the set of jobs, and then the
other collections are compared, too: the cache may have missed the end of the pod that such a Workload waits for.

The resync handler decides from `status.lastReconcileTime`, or from a later comparison that was not written, and from
the job's interval. So a new leader continues where the old leader stopped (`last_comparison`): after a restart of the
operator, quiet jobs are compared when they are due, and not all of them after 15 s. Its caches are fresh lists then, so
they have missed nothing. The caches of a standby that has waited for long are old: it compares all jobs after the
shortest interval, once, and each job then continues with its previous interval.

The cost for N idle jobs: one look per `base` (15 s) at most, and one per `cap` (5 min) once all jobs have been quiet
for ten minutes. If there was no full list for `cap`, a look is three paged, metadata-only lists, one more with gangs,
and one more with TensorBoards. Otherwise it is as many short watches, whose cost grows with the changes. Each active
job's `status.lastReconcileTime` is written with other changes of its status, or else with its first comparison and then
before it is older than `cap`. These writes alone are five a second at most. With more than 1,500 jobs, all records
therefore become equally older, and above 75 jobs there is a look for each 75 writes. The record of a finished job is
not written any more.
"""

from tfoperator.reconciler.metrics import ReconcilerMetrics
from tfoperator.reconciler.reconciler import Reconciler
from tfoperator.reconciler.schedule import Intervals

__all__ = ["Intervals", "Reconciler", "ReconcilerMetrics"]
