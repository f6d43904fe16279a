"""The webhook's entry in the CRD (`spec.conversion`): its address and the authorities to trust. The module does no I/O.

API servers convert TFJobs only if the CRD serves another version than v1. A CRD that serves only v1 stays unchanged. In
any other CRD, the operator replaces an existing entry. The existing entry may be unusable: for example, when a user
applies the CRD's manifest again, the entry loses its authorities. If the entry had the strategy `None`, API servers
would only change `apiVersion`, and return invalid v1alpha2 jobs.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from tfoperator.api.replicas.names import CONVERSION_PATH
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views.objects import HasMetadata


class Target(msgspec.Struct, frozen=True):
    """The address at which API servers call the webhook: `url` if it is set, and otherwise a Service."""

    service: str = ""
    namespace: str = ""
    url: str = ""

    def client_config(self, bundle: bytes) -> dict[str, Any]:
        """Return the value of `spec.conversion.webhook.clientConfig`."""
        service = {"namespace": self.namespace, "name": self.service, "path": CONVERSION_PATH, "port": 443}
        where = {"url": self.url} if self.url else {"service": service}
        return {**where, "caBundle": base64.b64encode(bundle).decode()}


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    client_config: dict[str, Any] = {}


class _Conversion(msgspec.Struct, frozen=True):
    strategy: str = "None"
    webhook: _Webhook | None = None


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = True


class _Spec(msgspec.Struct, frozen=True):
    conversion: _Conversion | None = None
    versions: tuple[_Version, ...] = ()


class CrdView(HasMetadata, frozen=True, gc=False):
    """A CustomResourceDefinition, reduced to the fields that the webhook reads."""

    spec: _Spec = _Spec()


decode_crd = decoder(CrdView)


def needs_conversion(crd: CrdView) -> bool:
    """Return whether the CRD serves another version than v1, so that API servers must convert TFJobs."""
    return any(version.served and version.name != TFJOBS.version for version in crd.spec.versions)


def trusted_by(crd: CrdView) -> bytes:
    """Return the `caBundle` of this CRD's webhook, a PEM text. Return b"" if it is missing or malformed."""
    try:
        return base64.b64decode(_config(crd).get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""


def registration_patch(crd: CrdView, target: Target, bundle: bytes) -> dict[str, Any] | None:
    """Return the merge patch that writes the webhook's entry to the CRD. It contains the CRD's resourceVersion.

    Return None if the entry is up to date, or if the CRD needs no conversion.
    """
    if not needs_conversion(crd):
        return None
    conversion, wanted = crd.spec.conversion, target.client_config(bundle)
    if conversion is not None and conversion.strategy == "Webhook" and _config(crd) == wanted:
        return None
    # In a merge patch, null removes a field: the old entry may have had a `url`, and the new entry a `service`.
    changed = {"clientConfig": {"url": None, "service": None, **wanted}, "conversionReviewVersions": ["v1"]}
    return {
        "metadata": {"resourceVersion": crd.metadata.resource_version},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": changed}},
    }


def _config(crd: CrdView) -> dict[str, Any]:
    webhook = crd.spec.conversion.webhook if crd.spec.conversion else None
    return webhook.client_config if webhook else {}
