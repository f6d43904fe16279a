"""Breaks everything around the operator by seeded plans, and judges what is left by an oracle of its own.

`python -m hack.faults --seed 4711` plays one plan; docs/faults.md explains what a plan is made of.
"""
