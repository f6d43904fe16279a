"""The past and present logs of a job's replicas: runs of containers, through restarts and deletions."""
