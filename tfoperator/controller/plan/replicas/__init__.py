"""The replicas of a job, as their pods show them."""
