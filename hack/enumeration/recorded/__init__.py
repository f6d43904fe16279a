"""Recorded actions of the operator in simulated runs (plays). They show which changes of the code change the actions.

The oracle checks only rules, and different actions can follow the rules. Here, the journal of each play is compared
with its recorded journal: every version of every object with its times, the events, and the times of each job's syncs.
"""
