"""The HTTP server of the operator's endpoints, of its webhook and of the page, which nobody keeps others away from."""

from tfoperator.http_server.limits import Limits, ListenError, source_of
from tfoperator.http_server.messages import Answer, Refusal, Request, StreamedAnswer
from tfoperator.http_server.server import HttpServer

__all__ = ["Answer", "HttpServer", "Limits", "ListenError", "Refusal", "Request", "StreamedAnswer", "source_of"]
