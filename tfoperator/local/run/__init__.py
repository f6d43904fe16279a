"""`tfoperator run`: TFJobs of a manifest from their creation to their end, on their own control plane.

`JobRun` runs them and reports events to a `RunListener`; `RunResult` records how the run ended. They never print.
"""
