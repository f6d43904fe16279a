"""Values that the microbenchmarks work on."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.unit.kube.pods import running_pod

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def pod_json(number: int) -> bytes:
    """A running pod as an API server sends it, about 4.3 KB."""
    return json.dumps(running_pod(number), separators=(",", ":")).encode()


def watch_line(number: int) -> bytes:
    """The line of a watch that brings it."""
    return b'{"type":"MODIFIED","object":' + pod_json(number) + b"}\n"
