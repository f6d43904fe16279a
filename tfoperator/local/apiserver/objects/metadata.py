"""Object metadata: which fields a client may set, and which values are valid. The rules are the same for every kind."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tfoperator.api.pods import name_rules
from tfoperator.local.apiserver.errors import FieldProblem, bad_request, forbidden, invalid_value, required
from tfoperator.local.apiserver.members import Json, keep
from tfoperator.local.apiserver.objects.strategies import Strategy
from tfoperator.local.apiserver.resource_types import ResourceType

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and look-alikes: generated names contain no words
_SUFFIX_LENGTH = 5
_MAX_BASE_LENGTH = 63 - _SUFFIX_LENGTH
_ANNOTATIONS_LIMIT = 256 * 1024  # bytes of all keys and values together

_SYSTEM_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "generateName",
    "selfLink",
    "managedFields",
)


def generated_name(base: str, rng: random.Random) -> str:
    """Return the base (`generateName`), followed by five random characters.

    The base is cut if the name would be too long for a label.
    """
    return base[:_MAX_BASE_LENGTH] + "".join(rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


def check_identity(resource: ResourceType, namespace: str, name: str, obj: Json) -> None:
    """Fill in the kind, the namespace and the name in the body from the URL.

    Raises StatusError 400 if the body and the URL contradict each other. For a create, `name` is empty. Remove
    `managedFields`, nulls and empty values such as `labels: {}` from the metadata, and for a create also the fields
    that describe a deletion.
    """
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        given = obj.get(field)
        if given and given != expected:
            raise bad_request(f"the {field} in the data ({given}) does not match the expected {field} ({expected})")
        obj[field] = expected
    metadata = obj["metadata"] = obj.get("metadata") or {}
    given = metadata.get("namespace")
    if resource.namespaced:
        if given and given != namespace:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the request "
                f"({given} instead of {namespace})"
            )
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if name:
        given = metadata.get("name")
        if given and given != name:
            raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        metadata["name"] = name
    else:
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
    metadata.pop("managedFields", None)
    _drop_nulls(metadata)


def _drop_nulls(metadata: Json) -> None:
    for field in [field for field, value in metadata.items() if value is None]:
        del metadata[field]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if field in metadata and not metadata[field]:
            del metadata[field]


def carry_over(new: Json, old: Json) -> None:
    """In an update, copy the metadata that only the server sets (`uid`, for example) from `old` to `new`."""
    for field in _SYSTEM_FIELDS:
        keep(new["metadata"], old["metadata"], field)


def validate_metadata(obj: Json, strategy: Strategy) -> Iterator[FieldProblem]:
    """Yield the problems of name, labels, annotations, finalizers and owner references."""
    metadata = obj["metadata"]
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif problem := strategy.name_rule(name):
        yield invalid_value("metadata.name", name, problem)
    for key, value in (metadata.get("labels") or {}).items():
        if problem := name_rules.qualified_name(key):
            yield invalid_value("metadata.labels", key, problem)
        if problem := name_rules.label_value(value):
            yield invalid_value("metadata.labels", value, problem)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        if problem := name_rules.qualified_name(key.lower()):
            yield invalid_value("metadata.annotations", key, problem)
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield FieldProblem(
            "metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        )
    for finalizer in metadata.get("finalizers") or ():
        if problem := name_rules.qualified_name(finalizer):
            yield invalid_value("metadata.finalizers", finalizer, problem)
    yield from _validate_owners(metadata.get("ownerReferences") or ())


def _validate_owners(references: list[Json] | tuple[()]) -> Iterator[FieldProblem]:
    controllers = [reference for reference in references if reference.get("controller")]
    for index, reference in enumerate(references):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(field):
                yield invalid_value(
                    f"metadata.ownerReferences[{index}].{field}",
                    reference.get(field) or "",
                    f"{field} must not be empty",
                )
    if len(controllers) > 1:
        first, second = controllers[0].get("name"), controllers[1].get("name")
        yield invalid_value(
            "metadata.ownerReferences",
            [reference.get("name") for reference in references],
            f'Only one reference can have Controller set to true. Found "true" in references for {first} and {second}',
        )


def validate_metadata_update(new: Json, old: Json) -> Iterator[FieldProblem]:
    """Yield a problem if a write adds finalizers to an object that is being deleted: they would keep the object
    forever.
    """
    if old["metadata"].get("deletionTimestamp"):
        before = old["metadata"].get("finalizers") or ()
        added = [f for f in new["metadata"].get("finalizers") or () if f not in before]
        if added:
            yield forbidden(
                "metadata.finalizers",
                f"no new finalizers can be added if the object is being deleted, found new finalizers {added}",
            )
