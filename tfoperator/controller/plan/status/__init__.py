"""The status of a job, and its conditions and events as people read them."""
