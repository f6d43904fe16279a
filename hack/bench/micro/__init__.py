"""Microbenchmarks of the operator's work for each event, each sync and each object: `make microbench`."""
