"""The webhook's entry in the CRD: its address and the authorities to trust. No I/O.

Only a CRD that serves more than v1 needs a conversion, so a CRD of v1 alone stays as it is. In any other CRD this
webhook replaces the present webhook: a CRD that a user applies again has no authorities, and a CRD with the strategy
None would return invalid v1alpha2 jobs.
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
    """Where API servers find the webhook: at `url`, or else behind a Service."""

    service: str = ""
    namespace: str = ""
    url: str = ""

    def client_config(self, bundle: bytes) -> dict[str, Any]:
        """Return `spec.conversion.webhook.clientConfig`."""
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
    """A CustomResourceDefinition, without its schemas."""

    spec: _Spec = _Spec()


decode_crd = decoder(CrdView)


def needs_conversion(crd: CrdView) -> bool:
    """Return whether API servers convert TFJobs at all."""
    return any(version.served and version.name != TFJOBS.version for version in crd.spec.versions)


def trusted_by(crd: CrdView) -> bytes:
    """Return the authorities of this CRD's webhook, as one PEM text; empty if there are none."""
    try:
        return base64.b64decode(_config(crd).get("caBundle") or "", validate=True)
    except binascii.Error:
        return b""


def registration_patch(crd: CrdView, target: Target, bundle: bytes) -> dict[str, Any] | None:
    """Return the merge patch that registers the webhook in this version of the CRD; None if it is up to date."""
    if not needs_conversion(crd):
        return None
    conversion, wanted = crd.spec.conversion, target.client_config(bundle)
    if conversion is not None and conversion.strategy == "Webhook" and _config(crd) == wanted:
        return None
    # A merge patch: null removes the address of before.
    changed = {"clientConfig": {"url": None, "service": None, **wanted}, "conversionReviewVersions": ["v1"]}
    return {
        "metadata": {"resourceVersion": crd.metadata.resource_version},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": changed}},
    }


def _config(crd: CrdView) -> dict[str, Any]:
    webhook = crd.spec.conversion.webhook if crd.spec.conversion else None
    return webhook.client_config if webhook else {}
