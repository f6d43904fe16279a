"""A folder of this machine that travels with a job to its replicas, without an image of its own."""
