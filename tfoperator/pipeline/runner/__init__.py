"""Runs pipelines: the steps in order, several in parallel, on their platforms. One process owns a run."""
