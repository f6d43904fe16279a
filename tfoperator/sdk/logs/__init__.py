"""The past and current logs of a job's replicas.

They consist of runs of containers, and include runs before restarts and of deleted pods.
"""
