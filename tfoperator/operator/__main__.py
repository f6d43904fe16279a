"""`python -m tfoperator.operator`: what `tfoperator operator` runs, without the command line's libraries."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from tfoperator.operator.process import run

MAX_NESTING = 25_000
"""API servers take JSON of up to 10,000 levels, so an object can be that deep. Decoding takes one level each, on the C
stack of a few hundred bytes a level. Where Python allows less whatever is said here, `kube/nesting.py` helps."""


_YOUNG = 20_000
"""New containers from which on the garbage collector looks for cycles among them (700 in Python 3.11). Hardly anything
here is in a cycle: in a burst of 8 jobs of 100 replicas looking for them took 4 % of the CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator with these arguments (default: the process's own); returns the exit code."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_NESTING))
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()  # what is left, modules and classes, is there for good
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
