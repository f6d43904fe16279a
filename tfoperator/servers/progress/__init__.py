"""Takes the reports of training programs, by Kubeflow Trainer's protocol, and keeps them in the statuses of their jobs.

Off unless an option asks for it, and not imported then. `server` is the HTTPS server, `tokens` says whose report it is,
`reports` what it says; `merging` makes the status of many reports, purely; `writer` writes it, within a budget.
"""

from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.progress_server import ProgressConfig, ProgressServer

__all__ = ["ProgressConfig", "ProgressMetrics", "ProgressServer"]
