"""Reads the facts for a migration with GET and LIST only. It reads no Secret and no ConfigMap, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tfoperator.api.migration.cluster import GO_OPERATOR, OTHER_KINDS, ClusterFacts, Unread
from tfoperator.api.replicas.names import CRD_NAME, MANAGED_SELECTOR
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import ForbiddenError, NotFoundError
from tfoperator.kube.protocol.options import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PODS, Resource
from tfoperator.kube.protocol.verbs import ApiClient, Decoder, ListWatch, decode_plain
from tfoperator.kube.views.objects import PartialObject, decode_partial, decode_pod
from tfoperator.kube.watching.listing import list_all

VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)

T = TypeVar("T")


def read_cluster(client: ApiClient, namespace: str) -> ClusterFacts:
    """Return the TFJobs of a namespace ("" for all namespaces), and their environment.

    The caller needs only the right to list TFJobs. Other facts that the caller has no right to read are listed in
    `unread`. Raises KubeError if the TFJobs can't be listed, or if another read fails for another reason.
    """
    unread: list[Unread] = []

    def tried(what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except ForbiddenError as error:
            unread.append(Unread(what, str(error)))
        except NotFoundError:
            pass
        return None

    def kind(plural: str) -> PartialObject:
        return client.get(CUSTOM_RESOURCE_DEFINITIONS, "", f"{plural}.{TFJOBS.group}", decode_partial)

    jobs = _all(client, TFJOBS, namespace, decode_plain)
    return ClusterFacts(
        jobs=jobs,
        pods=tried("pods of TFJobs", lambda: _all(client, PODS, namespace, decode_pod, MANAGED_SELECTOR)),
        crd=tried("the CRD", lambda: client.get(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, decode_plain)),
        other_kinds=tuple(crd for crd in OTHER_KINDS if tried(f"the CRD of {crd}", partial(kind, crd)) is not None),
        operators=tried("Deployments", lambda: _all(client, DEPLOYMENTS, "", decode_plain, GO_OPERATOR)) or (),
        webhooks=tried("webhook configurations", lambda: _all(client, VALIDATING_WEBHOOKS, "", decode_plain)) or (),
        unread=tuple(unread),  # filled by the calls above
    )


def _all(client: ApiClient, resource: Resource, namespace: str, decode: Decoder[T], labels: str = "") -> tuple[T, ...]:
    selection = Selection(label_selector=labels) if labels else EVERYTHING
    return tuple(list_all(ListWatch(client, resource, namespace, decode, selection)).items)
