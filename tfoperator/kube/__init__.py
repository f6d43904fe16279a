"""Communicates with an API server: configuration, transport, verbs, watch, errors, rate limit.

Create a client with `Client(load_config())`. Components that use a client depend only on `protocol.verbs.ApiClient`.
`views` contains the types of objects, `protocol` the interface for callers, `config` the address and credentials of a
server, `http` the requests, and `watching` the lists and watches.
"""

from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.patches.merge_patch import apply_merge_patch
from tfoperator.kube.protocol.errors import (
    ApiError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from tfoperator.kube.protocol.observer import RequestObserver
from tfoperator.kube.protocol.options import EVERYTHING, ListOptions, Selection, WatchOptions, by_name
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import ListWatch
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.kube.watching.listing import list_all, list_pages

__all__ = [
    "EVERYTHING",
    "PODS",
    "ApiError",
    "Client",
    "ForbiddenError",
    "KubeError",
    "ListOptions",
    "ListWatch",
    "NotFoundError",
    "ObjectMeta",
    "Pod",
    "RequestObserver",
    "Selection",
    "WatchOptions",
    "apply_merge_patch",
    "by_name",
    "list_all",
    "list_pages",
    "load_config",
]
