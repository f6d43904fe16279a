"""Restarts of a job's replicas: together, alone, in place, on another node, or with a delay after disruptions."""
