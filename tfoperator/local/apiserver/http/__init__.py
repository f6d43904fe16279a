"""The HTTP side of the server: connections, paths, bodies, watches and logs.

`Api` gets each request first and passes those for resources to `ResourceRequests`. Other packages have the rules
for writes, storage and encoding. All of it runs in the server's event loop, except the readers of logs.
"""

from tfoperator.local.apiserver.http.api import Api
from tfoperator.local.apiserver.http.bodies import MAX_BODY, decode_delete_options, decode_object, write_options
from tfoperator.local.apiserver.http.listener import ListeningSocket, make_certificate
from tfoperator.local.apiserver.http.metrics_requests import MetricsRequests, UsageSource
from tfoperator.local.apiserver.http.pod_logs import LogReader, LogThreads
from tfoperator.local.apiserver.http.pod_streams import CommandOpener, PodStreams
from tfoperator.local.apiserver.http.resource_requests import ResourceRequests
from tfoperator.local.apiserver.http.reviews import REVIEWS, USER

__all__ = [
    "MAX_BODY",
    "REVIEWS",
    "USER",
    "Api",
    "CommandOpener",
    "ListeningSocket",
    "LogReader",
    "LogThreads",
    "MetricsRequests",
    "PodStreams",
    "ResourceRequests",
    "UsageSource",
    "decode_delete_options",
    "decode_object",
    "make_certificate",
    "write_options",
]
