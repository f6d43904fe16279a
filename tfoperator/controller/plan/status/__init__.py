"""The status of a job and its wording."""
