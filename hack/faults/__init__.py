"""Seeded fault injection for real operators. An oracle that shares no code with them judges what happened.

`plan` says what is played, `injection` breaks things, `simulation` is the rest of the cluster, `journal` records what
the API server says, `oracle` judges it, and `runner` plays one plan. `python -m hack.faults --seed 4711` is one plan
again; docs/faults.md explains what a plan is made of.
"""
