"""The guardian of containers: a small process that removes a run's containers and networks if the run is killed.

The guardian is started as `python guardian_main.py RUN`, and reads its standard input. If the input ends without a
message, the run was killed and can't clean up any more. Only then the guardian imports the large modules for the Docker
engine. So a guardian uses little memory.
"""

import signal
import sys
import time

ALL_IS_REMOVED = b"removed"
"""The last message from a run to the guardian, after the run has removed its own containers and networks."""

_MAX_PASSES = 5
_PAUSE_SECONDS = 1.0  # seconds; the engine may still be busy with the run's last requests


def main(run: str) -> None:
    """Wait for the end of the run with the ID `run`. If the run was killed, remove its containers and networks."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the guardian ends only after its input has ended
    if sys.stdin.buffer.read() == ALL_IS_REMOVED:
        return
    from tfoperator.local.runtime.docker.engine import connect
    from tfoperator.local.runtime.docker.leftovers import remove_run

    api = connect().api
    for attempt in range(_MAX_PASSES):
        if not remove_run(api, run) and attempt:
            break
        time.sleep(_PAUSE_SECONDS)
    api.close()


if __name__ == "__main__":
    main(sys.argv[1])
