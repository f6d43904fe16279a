"""Runs pipelines: the steps in order, several in parallel, on their platforms. A lease gives a run to one process."""
