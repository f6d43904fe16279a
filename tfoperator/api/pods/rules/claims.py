"""The rules for the claims of volumes and devices that a pod defines or names."""

from __future__ import annotations

from tfoperator.api.fields.quantity import parse_signed_quantity
from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Faults,
    Json,
    by_rule,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    texts,
)
from tfoperator.api.pods.rules.labels import annotation_faults, label_faults, selector

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"


def claim_template_faults(at: str, template: Json) -> Faults:
    """Yield the faults of the template from which Kubernetes makes a claim for each pod."""
    metadata = part(template, "metadata")
    yield from annotation_faults(f"{at}.metadata.annotations", part(metadata, "annotations"))
    yield from label_faults(f"{at}.metadata.labels", part(metadata, "labels"))
    for field, value in metadata.items():
        # An empty list counts as set, as API servers compare it; an empty text does not.
        if field not in ("annotations", "labels") and value is not None and value not in ("", 0):
            shown = "uID" if field == "uid" else field
            yield forbidden(f"{at}.metadata.{shown}", "must not be set in a template")
    yield from _claim_faults(f"{at}.spec", part(template, "spec"))


def _claim_faults(at: str, spec: Json) -> Faults:
    modes = texts(spec, "accessModes")
    if not modes:
        yield required(f"{at}.accessModes")
    yield from selector(f"{at}.selector", spec.get("selector"))
    for mode in modes:
        yield from choice(f"{at}.accessModes", mode, _MODES)
    if _ALONE in modes and any(mode in _MODES and mode != _ALONE for mode in modes):
        yield forbidden(f"{at}.accessModes", f"must not have {_ALONE} beside others")
    storage = part(part(spec, "resources"), "requests").get("storage")
    if storage is None:
        yield required(f"{at}.resources[storage]")
    elif parse_signed_quantity(storage) <= 0:
        yield invalid(f"{at}.resources[storage]", storage, "must be more than 0")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if text(spec, field):
            yield from by_rule(f"{at}.{field}", spec[field], name_rules.dns_subdomain)
    if spec.get("volumeMode") is not None:
        yield from choice(f"{at}.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))


def device_claim_faults(spec: Json, path: str) -> Faults:
    """Yield the faults of the claims of devices (`resourceClaims`) of a pod."""
    seen_names: set[str] = set()
    for position, claim in enumerate(items(spec, "resourceClaims")):
        at, name = f"{path}.resourceClaims[{position}]", text(claim, "name")
        if not name:
            yield required(f"{at}.name")
        elif name in seen_names:
            yield duplicate(f"{at}.name", name)
        else:
            yield from by_rule(f"{at}.name", name, name_rules.dns_label)
            seen_names.add(name)
        sources = [
            source for source in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(source) is not None
        ]
        if len(sources) != 1:
            yield invalid(at, None, "must have one of resourceClaimName and resourceClaimTemplateName")
        for source in sources:
            yield from by_rule(f"{at}.{source}", claim[source], name_rules.dns_subdomain)
