"""Observes jobs: caches that informers fill, and one value with everything known of a job, for the plan.

`connect` turns watch events into keys; `Observer` combines the caches with the ledger.
"""

from tfoperator.controller.observe.handlers import JobHandler, connect
from tfoperator.controller.observe.informers import ControllerInformers
from tfoperator.controller.observe.observer import Observer, versions_of

__all__ = ["ControllerInformers", "JobHandler", "Observer", "connect", "versions_of"]
