"""Random TFJobs, pods, statuses and options: of jobs that live, and of jobs that a user has spoilt.

`manifests.py` has one table of fields and two sets of chances: the random lives of the recorded plays (`CALM`), and
`random_case` (`ODD`), which spoils its jobs besides.

The caller's `random.Random` decides everything. `hack/fuzz.py` gives one per number, and unit tests Hypothesis' own,
which searches, and shrinks its findings; Hypothesis' generator is some twenty times slower.
"""

from hack.random_jobs.cases import Case, random_case
from hack.random_jobs.spoiling import damaged

__all__ = ["Case", "damaged", "random_case"]
