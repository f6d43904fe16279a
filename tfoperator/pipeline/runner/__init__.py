"""Runs pipelines: the steps in order, several at once, on their platforms, by one process that owns the run."""
