"""The status of a job, and the texts of its conditions and events."""
