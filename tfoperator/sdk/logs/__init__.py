"""The past and current logs of a job's replicas.

Each start of a container (a run) has its own log. This includes runs before restarts, and runs of deleted pods.
"""
