"""Observes jobs: caches that informers fill, and one value with everything known of a job, for the plan.

`connect` turns watch events into keys; `Observer` combines the caches with the ledger.
"""
