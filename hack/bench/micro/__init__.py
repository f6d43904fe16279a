"""Microbenchmarks of what is done once per event, per sync or per object: `make microbench`."""
