"""The cleanup after a run that was killed.

Each run has a guardian: a small process that waits until the run's process ends. After the run was killed, its guardian
cleans up at once. If the guardian was killed too, the next run reads the records of the killed run and cleans up.
"""
