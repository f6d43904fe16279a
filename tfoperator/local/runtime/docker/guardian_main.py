"""The guardian of containers: a small process that removes what a run has made if the run itself is killed.

It runs as `python guardian_main.py RUN` and reads its standard input. If that ends without a message, the run is gone
and can't clean up any more. Only then is anything large imported: mostly it isn't needed.
"""

import signal
import sys
import time

ALL_IS_REMOVED = b"removed"
"""What a run says that has cleaned up after itself."""

_PASSES = 5
_PAUSE = 1.0  # seconds; the engine may still be busy with what the run has asked for last


def main(run: str) -> None:
    """Wait for the run's end, then remove what it has left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its life is tied to its input and to nothing else
    if sys.stdin.buffer.read() == ALL_IS_REMOVED:
        return
    from tfoperator.local.runtime.docker.engine import connect
    from tfoperator.local.runtime.docker.leftovers import remove_run

    api = connect().api
    for attempt in range(_PASSES):
        if not remove_run(api, run) and attempt:
            break
        time.sleep(_PAUSE)
    api.close()


if __name__ == "__main__":
    main(sys.argv[1])
