"""Raises the limit of open files of this process: a local container needs about six, and a macOS shell allows 256."""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

WANTED = 10_240
"""The wanted limit of open files, which is enough for some 1500 containers. macOS allows no more, and with this limit,
programs that close all possible file descriptors are still fast.
"""


def raised(soft: int, hard: int, wanted: int = WANTED) -> int:
    """Return the limit to set instead of `soft`, at most `hard`; return `soft` if it is high enough or can't be raised.

    Pure.
    """
    if soft == resource.RLIM_INFINITY:
        return soft
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return max(soft, most)


def raise_file_limit() -> None:
    """Let this process and its children open `WANTED` files, or as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = raised(soft, hard)
    if limit == soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (ValueError, OSError) as error:
        logger.debug("the limit of open files stays at %d: %s", soft, error)
