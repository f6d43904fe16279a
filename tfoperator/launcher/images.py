"""Names of images: which of them mean the same bytes for ever."""

from __future__ import annotations

import re

__all__ = ["digest_of"]

_DIGEST = re.compile(r"(?:^|.*@)(sha256:[0-9a-f]{64})$")


def digest_of(image: str) -> str:
    """The digest that a reference pins (`name@sha256:...`); "" for a tag, which may mean another image tomorrow."""
    match = _DIGEST.match(image)
    return match[1] if match else ""
