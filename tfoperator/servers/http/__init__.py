"""The HTTP server of the operator's endpoints, its webhook and the page; any client can reach it."""

from tfoperator.servers.http.limits import Address, Limits, ListenError, source_of
from tfoperator.servers.http.messages import Answer, Refusal, Request, StreamedAnswer
from tfoperator.servers.http.server import HttpServer
from tfoperator.servers.http.strangers_log import StrangersLog

__all__ = [
    "Address",
    "Answer",
    "HttpServer",
    "Limits",
    "ListenError",
    "Refusal",
    "Request",
    "StrangersLog",
    "StreamedAnswer",
    "source_of",
]
