"""Answers that a fault gives instead of the API server's, and ways to end a connection."""

from __future__ import annotations

from aiohttp import web

from hack.faults.injection.injector import EventFault, RequestFault

REASONS = {
    RequestFault.CONFLICT: (409, "Conflict"),
    RequestFault.GONE: (410, "Expired"),
    RequestFault.TOO_MANY: (429, "TooManyRequests"),
    RequestFault.INTERNAL: (500, "InternalError"),
    RequestFault.INTERNAL_AFTER: (500, "InternalError"),
    RequestFault.UNAVAILABLE: (503, "ServiceUnavailable"),
    RequestFault.TIMEOUT_AFTER: (504, "Timeout"),
}
EVENT_ERRORS = {
    EventFault.GONE: (410, "Expired"),
    EventFault.INTERNAL: (500, "InternalError"),
    EventFault.TOO_MANY: (429, "TooManyRequests"),
}
AFTER = (RequestFault.INTERNAL_AFTER, RequestFault.TIMEOUT_AFTER)
"""Errors that are answered although the server has done what it was asked for."""


def status_body(code: int, reason: str, message: str) -> dict[str, object]:
    """A Status, as API servers answer failures with."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer with a Status."""
    return web.json_response(status_body(code, reason, message), status=code, headers=headers)


def drop(incoming: web.Request) -> web.Response:
    """Reset the connection; what is returned is never sent."""
    if incoming.transport is not None:
        incoming.transport.abort()
    return web.Response()


def hang_up(incoming: web.Request) -> None:
    """Close the connection once what was written has been sent."""
    if incoming.transport is not None:
        incoming.transport.close()


async def truncated(incoming: web.Request, status: int, headers: dict[str, str], data: bytes) -> web.StreamResponse:
    """Send the first half of an answer, and close the connection."""
    response = web.StreamResponse(status=status, headers=headers)
    # Set the header directly: with the framework's own length, the framework would report the missing half.
    response.headers["Content-Length"] = str(len(data))
    await response.prepare(incoming)
    await response.write(data[: len(data) // 2])
    hang_up(incoming)
    return response
