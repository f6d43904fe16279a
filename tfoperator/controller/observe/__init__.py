"""Observes jobs: informers fill caches, and for a plan all known facts about a job are combined in one value.

`connect` turns watch events into keys; `Observer` combines the caches with the ledger.
"""
