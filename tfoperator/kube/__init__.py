"""Talking to an API server: configuration, transport, verbs, watch, errors, rate limit.

`Client(load_config())` is the way in; components that use one depend on `verbs.ApiClient` instead.
"""

from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.errors import (
    ApiError,
    ForbiddenError,
    KubeError,
    NotFoundError,
)
from tfoperator.kube.listing import list_all, list_pages
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.kube.observer import RequestObserver
from tfoperator.kube.options import EVERYTHING, ListOptions, Selection, WatchOptions, by_name
from tfoperator.kube.patches.merge_patch import apply_merge_patch
from tfoperator.kube.resources import PODS
from tfoperator.kube.verbs import ListWatch

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
