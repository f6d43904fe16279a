"""`python -m tfoperator.operator`: what `tfoperator operator` runs, without the command line's libraries."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tfoperator.operator.process import run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator with these arguments (default: the process's own); returns the exit code."""
    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
