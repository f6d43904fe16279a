"""What is known of a job: caches, events, whose objects are whose, and what has been written and not been seen.

Informers fill the caches and turn watch events into keys; `Observer` makes one value of all that is known of a job, for
the plan; `CacheLag` knows how far that may be behind, and `JobMemory` what must not be computed or said again.
"""

from tfoperator.controller.observe.archive import PodArchive
from tfoperator.controller.observe.cache_lag import CacheLag, StaleCache, is_older
from tfoperator.controller.observe.claim import Claimer, matches, versions_of
from tfoperator.controller.observe.handlers import JobHandler, connect
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.observe.memory import JobMemory
from tfoperator.controller.observe.observer import Observer
from tfoperator.controller.observe.stalls import NO_WITNESSES, LogLooks, PodWitnesses, StackKeeper

__all__ = [
    "NO_WITNESSES",
    "CacheLag",
    "Claimer",
    "ControllerInformers",
    "JobHandler",
    "JobMemory",
    "LogLooks",
    "Observer",
    "PodArchive",
    "PodWitnesses",
    "StackKeeper",
    "StaleCache",
    "connect",
    "is_older",
    "matches",
    "versions_of",
]
