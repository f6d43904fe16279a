"""Random fault injection for real operators, with seeds. An oracle checks the result without code of the operator.

`plan` contains the scenarios, `injection` injects the faults, `simulation` simulates the rest of the cluster, `journal`
records the changes at the API server, `oracle` checks these changes, and `runner` plays a plan. `python -m hack.faults
--seed 4711` plays the same plan again. docs/evidence/random-plans.md describes the parts of a plan.
"""
