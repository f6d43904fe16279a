"""Starts the command. `tfoperator operator` is dispatched before the libraries of the command line are imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (default: the process's) name; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["operator"]:
            from tfoperator.operator.__main__ import main as operator_main

            return operator_main(list(arguments[1:]))
        from tfoperator.cli.app import run_app

        return run_app(arguments)
    except KeyboardInterrupt:  # while modules are still being imported
        return 130  # 128 + SIGINT, as in shells


if __name__ == "__main__":
    sys.exit(main())
