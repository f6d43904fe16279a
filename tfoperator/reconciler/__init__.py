"""The double check: compares the caches with the live state in the API server, and repairs the caches.

A *look* is one reading of the live state. A job that does not change (a quiet job) is compared less and less often. The
set of all jobs is compared, too. Only this comparison finds a job that is missing in the cache, because such a job gets
no resync. The set has its own entry in the schedule, and the thread that compares wakes up for this entry.

Together with the set of all jobs, the double check looks for Workloads whose jobs are deleted
(`controller/kueue/left.py`). If there are any, it compares all other collections, too: such a Workload waits for the
end of a pod, and the cache may have missed this end.

The resync handler decides whether a job is due. It uses `status.lastReconcileTime` (or a later comparison of this
process that is not in the status) and the job's interval. So a new leader continues where the old leader stopped
(`last_comparison`). After a restart of the operator, quiet jobs are compared when they are due, and not all of them
after 15 s. The caches of a restarted operator are fresh lists, so they have missed nothing. If a standby replica
becomes the leader after a long time, its caches may have missed changes. The new leader compares all jobs once after
the shortest interval. After that, each job continues with its previous interval.

The cost does not depend on the number of idle jobs: at most one look per `base` (15 s), and one look per `cap` (5 min)
when all jobs have been quiet for ten minutes. If the last full list is older than about `cap`, a look consists of three
paged lists of metadata (TFJobs, pods, services), one more list with gang scheduling, and one more list with
TensorBoards. Otherwise, large collections are read by a short watch in place of a list. The cost of a watch grows with
the number of changes. `status.lastReconcileTime` of each active job is written together with other changes of the job's
status. If there are no other changes, this time is written after the first comparison, and then again each time before
it becomes older than `cap`. At most five statuses a second, and so at most 75 statuses between two looks (15 s), are
written only for this time. With more than 1,500 jobs, this rate is too low for `cap`, so the times of all jobs become
older to the same degree. If more than 75 jobs need a write after a look, the others wait for the next look. After a job
has finished, its `status.lastReconcileTime` is not written any more.
"""

from tfoperator.reconciler.metrics import ReconcilerMetrics
from tfoperator.reconciler.reconciler import Reconciler
from tfoperator.reconciler.schedule import Intervals

__all__ = ["Intervals", "Reconciler", "ReconcilerMetrics"]
