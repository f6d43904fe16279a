"""Observes jobs: informers fill caches, and for a plan all known facts about a job are combined in one value.

`connect` turns watch events into the keys of the jobs to sync. `Observer` combines the caches with the facts in
`controller/ledger`, such as this process's own writes.
"""
