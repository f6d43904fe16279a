"""The guardian of a run's containers. See `guardian_main`, which removes them if this process is killed.

Containers belong to the engine, so unlike processes they would live on after a `kill -9`. The labels that let the next
run find them (`leftovers`) are for the worst case, in which the guardian is gone, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tfoperator.local.runtime.guardian import Guardian

_PROGRAM = Path(__file__).with_name("guardian_main.py")


def container_guardian(run: str) -> Guardian:
    """Sees to it that no container of a run outlives this process, unless it is stopped with ALL_IS_REMOVED."""
    # It may need what this process imports, wherever that came from; -P keeps its own folder out of that.
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    return Guardian(["-P", str(_PROGRAM), run], environment={**os.environ, "PYTHONPATH": path})
