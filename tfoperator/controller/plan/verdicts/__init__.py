"""The stage of a job: whether it goes on, has ended, or makes no sense."""
