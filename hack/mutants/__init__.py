"""Changes one place in a part of tfoperator at a time, and checks whether the tests of this part notice the change.

`python -m hack.mutants --help` describes the command. docs/evidence/mutants.md contains the results.
"""
