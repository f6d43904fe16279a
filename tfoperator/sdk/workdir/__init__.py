"""A folder of this machine that is sent with a job to its replicas. It needs no image of its own."""
