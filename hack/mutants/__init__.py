"""Changes one place of a room of tfoperator at a time, and asks whether its tests notice.

`python -m hack.mutants --help` describes the command; docs/evidence/mutants.md has what it found.
"""
