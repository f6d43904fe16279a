"""Makes `python -m tfoperator.operator` do the same as `tfoperator operator`, but without the command
line's libraries.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from tfoperator.base.file_limit import raise_file_limit
from tfoperator.operator.process import run

MAX_NESTING = 25_000
"""API servers accept JSON with up to 10,000 levels, so an object can be that deep. The decoder needs one level of
recursion for each level of JSON, and a few hundred bytes of the C stack for each level of recursion. Some versions of
Python have a lower limit, whatever this value is. For them, `kube/http/nesting.py` helps.
"""


_GC_THRESHOLD = 20_000
"""The number of new container objects after which Python's garbage collector searches for cycles (700 in Python 3.11).
Hardly any object is in a cycle. With a burst of 8 jobs of 100 replicas, the search took 4 % of the CPU.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator with these arguments, and return the exit code.

    By default, it takes the arguments of the process.
    """
    raise_file_limit()  # connections wait at its servers
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING))
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()  # the remaining objects, modules and classes, are permanent
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
