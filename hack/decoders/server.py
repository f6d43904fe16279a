"""The input of our servers: heads of requests, reviews (and the CRD that the webhook reads), reports of progress with
their tokens (and the keys to these), requests for the page, and calls of the API.
"""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from jwt.algorithms import ECAlgorithm

from hack.decoders.decoder import Decoder
from hack.decoders.samples import POD, as_json, jobs, manifests
from tfoperator.api.schema.crd import crd
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.http import protobuf
from tfoperator.local.apiserver.http.bodies import decode_delete_options, decode_object, write_options
from tfoperator.local.apiserver.objects.field_managers import Owner, after_update, managed_fields, owned_fields
from tfoperator.local.apiserver.objects.field_sets import builtin_layout, fields_of
from tfoperator.local.apiserver.registry.patch import patcher
from tfoperator.local.apiserver.resource_types import BUILTIN
from tfoperator.local.apiserver.storage.listing import ListRequest
from tfoperator.local.apiserver.storage.selectors import parse_selector
from tfoperator.servers.http.messages import Refusal, parse_head
from tfoperator.servers.http.wire import read_body, read_head
from tfoperator.servers.progress.reports import InvalidReport, MalformedReport, encode_report, parse_report
from tfoperator.servers.progress.tokens import TokenRefused, parse_keys, verify
from tfoperator.servers.webhook.registration import Target, decode_crd, registration_patch
from tfoperator.servers.webhook.review import MalformedReview, answer
from tfoperator.ui.guard import Sessions, complaint, fields_in, token_in

PODS_OF_SERVER = next(resource for resource in BUILTIN if resource.plural == "pods")


def server_decoders() -> list[Decoder]:
    """Of all servers, of the webhook and of the API server."""
    head = (
        b"POST /convert?timeout=30s HTTP/1.1\r\nHost: webhook.ns.svc\r\nUser-Agent: kube-apiserver\r\n"
        b"Content-Length: 90\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\nExpect: 100-continue\r\n\r\n"
    )
    mine = [*_webhook(), *_progress(), *_page(), *_requests()]
    chunks = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n1\r\n \r\n0\r\nX: y\r\n\r\n"
    body = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    return [
        Decoder("http request", (head,), parse_head, (Refusal,)),
        Decoder("http request with a body", (chunks, body), _whole_request, (Refusal, EOFError)),
        *mine,
    ]


def _whole_request(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(data)
        reader.feed_eof()
        request = await read_head(b"", reader)
        await read_body(request, reader, most=1 << 10, send=bytes, received=int)

    asyncio.run(read())


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


def _part(value: bytes) -> bytes:
    return urlsafe_b64encode(value).rstrip(b"=")


def _progress() -> list[Decoder]:
    key = ec.derive_private_key(7, ec.SECP256R1())
    public = {"kid": "k", "alg": "ES256", "use": "sig"} | ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    discovery, keys = as_json({"issuer": "i"}), as_json({"keys": [public]})
    parsed_keys = parse_keys(discovery, keys)
    pod = {"namespace": "ns", "pod": {"name": "a", "uid": "u"}}
    claims = {"iss": "i", "aud": ["job"], "exp": 9_999_999_999, "kubernetes.io": pod}
    header = as_json({"alg": "ES256", "kid": "k"})
    signed = _part(header) + b"." + _part(as_json(claims))
    pair = decode_dss_signature(key.sign(signed, ec.ECDSA(SHA256(), deterministic_signing=True)))
    signature = _part(b"".join(number.to_bytes(32, "big") for number in pair))
    metrics = [{"name": "current_step", "value": "4"}, {"name": "loss", "value": "0.1"}]
    status = {"progressPercentage": 3, "estimatedRemainingSeconds": 9, "metrics": metrics}
    report = as_json({"trainerStatus": status | {"lastUpdatedTime": "2026-01-01T00:00:00Z"}})

    def reported(data: bytes) -> None:
        encode_report(parse_report(data, "worker-0", datetime(2026, 1, 1, tzinfo=UTC)))

    def verified(data: bytes) -> None:
        verify(data.decode("latin-1"), parsed_keys, "job")  # as it comes from a header

    def named(data: bytes) -> None:
        verify((_part(data) + signed[signed.index(b".") :] + b"." + signature).decode(), parsed_keys, "job")

    return [
        Decoder("progress report", (report,), reported, (MalformedReport, InvalidReport)),
        Decoder("token", (signed + b"." + signature,), verified, (TokenRefused,)),
        Decoder("header of a token", (header,), named, (TokenRefused,)),
        Decoder("token keys", (keys,), lambda data: parse_keys(discovery, data), (ValueError,)),
        Decoder("token issuer", (discovery,), lambda data: parse_keys(data, keys), (ValueError,)),
    ]


def _page() -> list[Decoder]:
    sessions = Sessions(1)
    head = (
        b"GET /api/job?namespace=a&name=b&tail=5 HTTP/1.1\r\nHost: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:1\r\n"
        b'Sec-Fetch-Site: same-origin\r\nCookie: a="b\\054"; tfoperator-1=c; Path=/\r\nX-Tfoperator-Key: k\r\n\r\n'
    )

    def asked(data: bytes) -> None:
        request = parse_head(data)
        complaint(request, 1)
        sessions.knows(request)
        fields_in(request.query)

    return [
        Decoder("page request", (head,), asked, (Refusal,)),
        Decoder("page session", (b'{"token": "t"}',), token_in, ()),
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
            lambda: write_options("POST", values),
        ):
            try:
                read()
            except StatusError:
                pass

    def selected(data: bytes, *, labels: bool = False) -> None:
        text = data.decode("utf-8", "replace")
        parse_selector(PODS_OF_SERVER, text if labels else "", "" if labels else text).matches(POD)

    def applied(data: bytes) -> None:
        layout = builtin_layout("Pod")
        owned_fields(json.loads(data))
        after_update(POD, POD, json.loads(data), Owner("x"), layout)

    applied_fields = fields_of(POD, builtin_layout("Pod"))
    entries = managed_fields({Owner("x", "Apply"): applied_fields}, (), "v1", "2026-01-01T00:00:00Z")
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
