"""Proof by enumeration: every write, every watch event and every older state, where random plans draw lots.

`world` is a cluster in one thread and virtual time, in which the operator's own parts run one step after the other;
`sieve` plays scenarios in it, and plays each again with one fault at every place that there is. `states` goes through
all states that a small job can reach, `fields` changes every field in every state of a job's life, and `seeds` plays
the random plans of `hack.faults` in it.
"""
