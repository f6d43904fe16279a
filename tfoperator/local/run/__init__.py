"""`tfoperator run`: runs the TFJobs of a manifest on a control plane of its own, from their creation to their end.

`JobRun` runs them and reports events to a `RunListener`; `RunResult` records how the run ended. These classes never
print.
"""
