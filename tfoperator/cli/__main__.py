"""Starts the program `tfoperator`.

`tfoperator operator` starts the operator without importing the libraries of the command line (Typer, rich).
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

_FIRST_SEARCH = 200_000
"""The number of new container objects after which the garbage collector first searches for reference cycles (700 in
Python 3.11).

A command that ends soon creates 150,000 such objects. Nearly all of these objects are parts of modules, which are never
freed. With Python's default threshold the searches took a tenth of the command's CPU time.
"""

_LATER_SEARCHES = 20_000
"""The threshold for later searches, in a command that continues to run: closed connections may leave reference cycles
with large buffers.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, and return the exit code.

    Without `arguments`, use the arguments of the process.
    """
    if arguments is None:  # `main` is the whole program, so it may change the garbage collector
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
    """Make the garbage collector of this process run rarely, and never when the process ends.

    When a process ends, the interpreter searches all imported modules for reference cycles, several times. This is not
    needed, because the operating system frees the memory. `gc.freeze` excludes all objects from these searches. Python
    calls exit functions in reverse order of registration. `gc.freeze` is registered first, so it runs after the exit
    functions that write logs and streams.
    """
    gc.set_threshold(_FIRST_SEARCH, *gc.get_threshold()[1:])
    gc.callbacks.append(_after_first_search)
    atexit.register(gc.freeze)


def _after_first_search(phase: str, _info: dict[str, int]) -> None:
    """Exclude modules and classes, which are never freed, from later searches, and make searches more frequent."""
    if phase == "stop":
        gc.callbacks.remove(_after_first_search)
        gc.freeze()
        gc.set_threshold(_LATER_SEARCHES, *gc.get_threshold()[1:])


if __name__ == "__main__":
    sys.exit(main())
