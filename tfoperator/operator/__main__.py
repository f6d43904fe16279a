"""`python -m tfoperator.operator`: the same as `tfoperator operator`, without the command line's libraries."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from tfoperator.base.file_limit import raise_file_limit
from tfoperator.operator.process import run

MAX_NESTING = 25_000
"""API servers take JSON of up to 10,000 levels, so an object can be that deep. Decoding takes one level of recursion
for each, which needs a few hundred bytes of the C stack. Where Python allows less regardless of this value,
`kube/http/nesting.py` helps."""


_GC_THRESHOLD = 20_000
"""The number of new container objects at which the garbage collector looks for cycles among them (700 in Python 3.11).
Hardly any object is in a cycle: in a burst of 8 jobs of 100 replicas the search took 4 % of the CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator with these arguments (default: the process's own); return the exit code."""
    raise_file_limit()  # connections wait at its servers
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING))
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()  # the remaining objects, modules and classes, are permanent
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
