"""The double check: it compares the caches with the live state in the API server, and repairs the caches.

It does so less and less often for quiet jobs, and at a limited cost. A *look* reads the live state. The set of all jobs
has its own entry in the schedule, and the thread wakes up for this entry. A job that is missing in the cache gets no
resync, so without this entry, nothing would find it if there is no other job.

With the set of all jobs, the double check also looks at Workloads that exist longer than their jobs
(`controller/kueue/left.py`). If there are any, it compares all other collections, too: such a Workload waits for the
end of a pod, and the cache may have missed this end.

The resync handler decides whether a job is due. It uses `status.lastReconcileTime`, or a later comparison that was not
written, and the job's interval. So a new leader continues where the old leader stopped (`last_comparison`). After a
restart of the operator, quiet jobs are compared when they are due, and not all of them after 15 s. The caches of a
restarted operator are fresh lists, so they have missed nothing. If a standby has waited for a long time, its caches are
old. It compares all jobs once after the shortest interval. After that, each job continues with its previous interval.

The cost for N idle jobs is one look per `base` (15 s) at most. When all jobs have been quiet for ten minutes, it is one
look per `cap` (5 min). If there was no full list for the time `cap`, a look consists of three paged lists of metadata,
one more list with gangs, and one more list with TensorBoards. Otherwise a look consists of the same number of short
watches. The cost of a watch grows with the number of changes. `status.lastReconcileTime` of each active job is written
together with other changes of the job's status. If there are none, it is written after the first comparison, and later
before the record is older than `cap`. At most five statuses a second are written only for this record. With more than
1,500 jobs, this rate is too low for `cap`, so all records become older to the same degree. With more than 75 jobs,
there is a look for each 75 writes. After a job has finished, its record is not written any more.
"""

from tfoperator.reconciler.metrics import ReconcilerMetrics
from tfoperator.reconciler.reconciler import Reconciler
from tfoperator.reconciler.schedule import Intervals

__all__ = ["Intervals", "Reconciler", "ReconcilerMetrics"]
