"""Random TFJobs with random pods, as an API server may hold them: mostly in order, then spoilt.

The caller's `random.Random` decides everything. `hack/fuzz.py` gives one per number, and unit tests Hypothesis' own,
which searches, and shrinks what it finds; that one is some twenty times slower.
"""

from hack.random_jobs.cases import Case, random_case
from hack.random_jobs.spoiling import damaged

__all__ = ["Case", "damaged", "random_case"]
