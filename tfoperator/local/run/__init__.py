"""`tfoperator run`: runs the TFJobs of a manifest from their creation to their end, on a new embedded control plane.

`JobRun` runs them and reports events to a `RunListener`; `RunResult` records how the run ended. These classes never
print.
"""
