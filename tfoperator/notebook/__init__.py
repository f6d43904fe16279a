"""Distributed training from a notebook, or any Python program, on this machine: no cluster, no terminal, no files.

>>> from tfoperator.notebook import run_locally
>>> run_locally(train, num_workers=2)  # doctest: +SKIP

Output goes to `sys.stdout`, which a notebook shows in the cell.
"""

from tfoperator.notebook.run import EnvironmentFailed, LocalRunFailed, LocalRunResult, run_locally

__all__ = ["EnvironmentFailed", "LocalRunFailed", "LocalRunResult", "run_locally"]
