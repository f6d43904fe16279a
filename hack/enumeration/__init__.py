"""Tests with faults at every write, every watch event and every older state, and not only at random places.

`world` is a cluster in one thread and virtual time, in which the parts of the real operator run one after another.
`sieve` plays scenarios in this world, and repeats each scenario with one fault at every possible place. `states`
explores all states that a small job can reach. `fields` changes every field in every state of a job's life. `seeds`
plays the random plans of `hack.faults` in this world.
"""
