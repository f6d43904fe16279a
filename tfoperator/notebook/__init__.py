"""Distributed training on this machine from a notebook, or from any Python program.

The training needs no cluster, no terminal, and no manifest or program file.

>>> from tfoperator.notebook import run_locally
>>> run_locally(train, num_workers=2)  # doctest: +SKIP

The output of the processes goes to `sys.stdout`, which a notebook shows in the cell.
"""

from tfoperator.notebook.run import EnvironmentFailed, LocalRunFailed, LocalRunResult, run_locally

__all__ = ["EnvironmentFailed", "LocalRunFailed", "LocalRunResult", "run_locally"]
