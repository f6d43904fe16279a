"""Breaks operators and what is around them: requests, watches, the network, API servers, processes, clocks."""
