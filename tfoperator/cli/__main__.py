"""The way in. `tfoperator operator` goes straight to the operator, which needs none of the command line's libraries."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main", "run_operator"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (default: the process's) name; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["operator"]:
        return run_operator(arguments[1:])
    from tfoperator.cli.app import run_app

    return run_app(arguments)


def run_operator(arguments: Sequence[str]) -> int:
    """Run the operator with its own arguments; returns its exit code."""
    from tfoperator.operator.__main__ import main as operator_main

    return operator_main(list(arguments))


if __name__ == "__main__":
    sys.exit(main())
