"""TFJobs: a component's container in every replica of a TFJob.

`launcher.py` makes the manifest of a component and its config, `backend.py` waits for the job and forwards the logs of
its replicas. All else is that of `platforms.kubernetes`.
"""

from tfoperator.launcher.platforms.tfjob.launcher import TFJobComponentLauncher, TFJobPlatformConfig

__all__ = ["TFJobComponentLauncher", "TFJobPlatformConfig"]
