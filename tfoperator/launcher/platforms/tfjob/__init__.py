"""TFJobs: a component's container in every replica of a TFJob.

`config.py` is what a platform config can say, `launcher.py` makes the manifest, `backend.py` waits for the job and
forwards the logs of its replicas. All else is that of `platforms.kubernetes`.
"""

from tfoperator.launcher.platforms.tfjob.config import TFJobPlatformConfig
from tfoperator.launcher.platforms.tfjob.launcher import TFJobComponentLauncher

__all__ = ["TFJobComponentLauncher", "TFJobPlatformConfig"]
