"""`tfoperator pipeline ...`: run pipelines, and inspect them.

`running.py` has `run`, `stop` and `clean`; `looking.py` `runs`, `show`, `logs`, `lineage`, `graph` and `ui`;
`compiling.py` `compile`, and `stepping.py` `step` and `finish`, which compiled pipelines run.
"""

from tfoperator.cli.commands.pipeline.compiling import compile_pipeline
from tfoperator.cli.commands.pipeline.looking import graph, lineage, logs, runs, show, ui
from tfoperator.cli.commands.pipeline.running import clean, run, stop
from tfoperator.cli.commands.pipeline.stepping import finish, step

__all__ = [
    "clean",
    "compile_pipeline",
    "finish",
    "graph",
    "lineage",
    "logs",
    "run",
    "runs",
    "show",
    "step",
    "stop",
    "ui",
]
