"""Starts the command. `tfoperator operator` is dispatched before the libraries of the command line are imported."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

_FIRST_SEARCH = 200_000
"""New containers from which on the garbage collector first looks for cycles among them (700 in Python 3.11).

A short run makes 150,000, and nearly all are parts of modules, which stay: the searches took a tenth of its CPU time.
"""

_LATER_SEARCHES = 20_000
"""The same, for a command that goes on: what a connection leaves behind may be in cycles, with large buffers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (default: the process's) name; return the exit code."""
    if arguments is None:  # the process is ours: only then its garbage collector is, too
        _collect_rarely()
        arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["operator"]:
            from tfoperator.operator.__main__ import main as operator_main

            return operator_main(list(arguments[1:]))
        from tfoperator.cli.app import run_app

        return run_app(arguments)
    except KeyboardInterrupt:  # while modules are still being imported
        return 130  # 128 + SIGINT, as in shells


def _collect_rarely() -> None:
    """Have the garbage collector of this process work rarely, and not at the end.

    At its end the interpreter searches all that was ever imported, several times. The operating system frees the memory
    anyway. The function that is registered first is called last: after logs and streams are written.
    """
    gc.set_threshold(_FIRST_SEARCH, *gc.get_threshold()[1:])
    gc.callbacks.append(_after_first_search)
    atexit.register(gc.freeze)


def _after_first_search(phase: str, _info: dict[str, int]) -> None:
    """Leave modules and classes, which are permanent, out of later searches, and let these come more often."""
    if phase == "stop":
        gc.callbacks.remove(_after_first_search)
        gc.freeze()
        gc.set_threshold(_LATER_SEARCHES, *gc.get_threshold()[1:])


if __name__ == "__main__":
    sys.exit(main())
