"""Processes that play worlds."""

from __future__ import annotations

import logging
from concurrent.futures import ProcessPoolExecutor


def quiet_processes(jobs: int) -> ProcessPoolExecutor:
    """Return a pool of this many processes, which log nothing."""
    return ProcessPoolExecutor(jobs, initializer=logging.disable, initargs=(logging.CRITICAL,))
