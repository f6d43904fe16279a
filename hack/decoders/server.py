"""What our servers are sent: heads of requests, reviews (and the CRD that the webhook reads), and calls of the API."""

from __future__ import annotations

import json

from hack.decoders.decoder import Decoder
from hack.decoders.samples import POD, as_json, jobs, manifests
from tfoperator.api.schema import crd
from tfoperator.kube.errors import UNDECODABLE
from tfoperator.local.apiserver import BUILTIN, StatusError
from tfoperator.local.apiserver.http import decode_delete_options, decode_object, protobuf, write_options
from tfoperator.local.apiserver.objects import Owner, after_update, list_keys, managed_fields
from tfoperator.local.apiserver.objects.field_managers import owned_fields
from tfoperator.local.apiserver.objects.field_sets import fields_of
from tfoperator.local.apiserver.registry import patcher
from tfoperator.local.apiserver.storage import ListRequest, parse_selector
from tfoperator.servers.http import Refusal
from tfoperator.servers.http.messages import parse_head
from tfoperator.servers.webhook.registration import Target, decode_crd, registration_patch
from tfoperator.servers.webhook.review import MalformedReview, answer

PODS_OF_SERVER = next(resource for resource in BUILTIN if resource.plural == "pods")


def server_decoders() -> list[Decoder]:
    """Of all servers, of the webhook and of the API server."""
    head = (
        b"POST /convert?timeout=30s HTTP/1.1\r\nHost: webhook.ns.svc\r\nUser-Agent: kube-apiserver\r\n"
        b"Content-Length: 90\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\nExpect: 100-continue\r\n\r\n"
    )
    return [Decoder("http request", (head,), parse_head, (Refusal,)), *_webhook(), *_requests()]


def _webhook() -> list[Decoder]:
    job = json.loads(jobs()[0])
    reviews = []
    for version, wanted in (("v1", "v1alpha2"), ("v1alpha2", "v1")):
        objects = [{**job, "apiVersion": f"kubeflow.org/{version}"}]
        request = {"uid": "u", "desiredAPIVersion": f"kubeflow.org/{wanted}", "objects": objects}
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
        reviews.append(as_json(review))

    def registered(data: bytes) -> None:
        registration_patch(decode_crd(data), Target("webhook", "ns"), b"")

    return [
        Decoder("conversion review", tuple(reviews), answer, (MalformedReview,)),
        Decoder("webhook crd", (as_json(crd(all_versions=True)),), registered, UNDECODABLE),
    ]


def _requests() -> list[Decoder]:
    declared = (StatusError,)
    deletion = {"gracePeriodSeconds": 3, "preconditions": {"uid": "u"}, "propagationPolicy": "Background"}
    operations = [{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "remove", "path": "/spec/nodeName"}]
    query = (
        b"limit=5&continue=eyJydiI6IDEsICJzdGFydCI6ICJhIn0=&resourceVersion=7&resourceVersionMatch=Exact"
        b"&timeoutSeconds=3&gracePeriodSeconds=-1&dryRun=All&fieldValidation=Strict"
    )
    # Options of a deletion: a grace period (1), preconditions (2) with a UID, a policy (4).
    envelope = (
        b"k8s\x00\n\x13\n\x02v1\x12\rDeleteOptions\x12\x13\x08\x05\x12\x03\n\x01u\x22\nBackground\x1a\x00\x22\x00"
    )

    def patched(kind: str, data: bytes) -> None:
        patcher(PODS_OF_SERVER, kind, data)(json.loads(as_json(POD)))

    def queried(data: bytes) -> None:
        parts = (part.partition("=") for part in data.decode("utf-8", "replace").split("&"))
        values = {name: value for name, _, value in parts}
        for read in (
            lambda: ListRequest.parse(PODS_OF_SERVER, values),
            lambda: decode_delete_options("", b"", values),
            lambda: write_options(values),
        ):
            try:
                read()
            except StatusError:
                pass

    def selected(data: bytes, *, labels: bool = False) -> None:
        text = data.decode("utf-8", "replace")
        parse_selector(PODS_OF_SERVER, text if labels else "", "" if labels else text).matches(POD)

    def applied(data: bytes) -> None:
        keys = list_keys("Pod")
        owned_fields(json.loads(data))
        after_update(POD, POD, json.loads(data), Owner("x"), keys)

    entries = managed_fields({Owner("x", "Apply"): fields_of(POD, list_keys("Pod"))}, (), "v1", "2026-01-01T00:00:00Z")
    types = ("application/merge-patch+json", "application/strategic-merge-patch+json")
    merge = as_json({"metadata": {"labels": {"x": None}}, "spec": {"containers": [{"name": "a", "$patch": "delete"}]}})
    return [
        Decoder("request body", jobs(), lambda data: decode_object("application/json", data), declared),
        Decoder("request body, yaml", manifests(), lambda data: decode_object("application/yaml", data), declared, 0.3),
        Decoder("request body, protobuf", (envelope,), lambda d: decode_object(protobuf.MEDIA_TYPE, d), declared),
        Decoder("delete options", (as_json(deletion),), lambda d: decode_delete_options("", d, {}), declared),
        Decoder("json patch", (as_json(operations),), lambda d: patched("application/json-patch+json", d), declared),
        Decoder("merge patch", (merge,), lambda data: patched(types[0], data), declared),
        Decoder("strategic patch", (merge,), lambda data: patched(types[1], data), declared),
        Decoder("managed fields", (as_json(entries),), applied, (ValueError, RecursionError)),
        Decoder("query", (query,), queried, declared),
        Decoder("label selector", (b"a=b,c!=d,e in (f,g),!h,i>3,j",), lambda d: selected(d, labels=True), declared),
        Decoder("field selector", (b"status.phase=Running,metadata.name!=a",), selected, declared),
    ]
