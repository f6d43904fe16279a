"""Looks at jobs: caches that informers fill, and one value of all that is known of a job, for the plan.

`connect` turns watch events into keys; `Observer` puts together what the caches show and what the ledger has.
"""

from tfoperator.controller.observe.handlers import JobHandler, connect
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.observe.observer import Observer, versions_of

__all__ = ["ControllerInformers", "JobHandler", "Observer", "connect", "versions_of"]
