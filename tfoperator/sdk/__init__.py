"""The Python client: create, watch and steer TFJobs from a program."""
