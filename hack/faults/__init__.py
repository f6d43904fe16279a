"""Seeded fault injection for real operators. An oracle that shares no code with them judges what happened.

`plan` has the scenarios, `injection` breaks things, `simulation` is the rest of the cluster, `journal` records the
changes at the API server, `oracle` judges them, and `runner` plays one plan. `python -m hack.faults --seed 4711` is one
plan again; docs/evidence/random-plans.md explains what a plan is made of.
"""
