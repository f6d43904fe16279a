"""Injects faults into operators and their environment: requests, watches, networks, API servers, processes, clocks."""
