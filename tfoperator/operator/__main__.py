"""The entry point of `python -m tfoperator.operator`, which does the same as `tfoperator operator`.

This module does not import the libraries of the command line (Typer, rich).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from tfoperator.base.file_limit import raise_file_limit
from tfoperator.operator.process import run

MAX_NESTING = 25_000
"""The recursion limit of the process (`sys.setrecursionlimit`). API servers accept JSON with up to 10,000 levels, and
the JSON decoder needs one level of recursion for each level of JSON. Each level takes a few hundred bytes of the C
stack. Some versions of Python have a lower fixed limit. For these versions, `kube/http/nesting.py` removes the deep
levels.
"""


_GC_THRESHOLD = 20_000
"""The number of new container objects after which Python's garbage collector searches for cycles (700 in Python 3.11).
Hardly any object is in a cycle. With Python's default, the searches took 4 % of the CPU during a burst of 8 jobs of 100
replicas.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator with these arguments, and return the exit code.

    Without `arguments`, use the arguments of the process.
    """
    raise_file_limit()  # each open connection to the operator's servers needs a file descriptor
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING))
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()  # the present objects are mostly modules and classes, which are never freed
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
