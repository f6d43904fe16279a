"""The training of a job: its progress, its loss, and the use of the job's time and resources."""
