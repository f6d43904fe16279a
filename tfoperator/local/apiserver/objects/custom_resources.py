"""Custom resources: the names, schema, printer columns and subresources from a CRD. This server serves custom resources
itself, without an apiextensions server.

The schema contains the rules that OpenAPI can express. A validator in Python replaces the CRD's CEL rules. As in
kube-apiserver, the validator runs only if the schema finds no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.local.apiserver.errors import FieldProblem, invalid_value
from tfoperator.local.apiserver.members import Json, content_of, keep, member_at
from tfoperator.local.apiserver.objects.field_sets import custom_layout
from tfoperator.local.apiserver.objects.strategies import Strategy
from tfoperator.local.apiserver.objects.structural_schema import StructuralSchema
from tfoperator.local.apiserver.resource_types import ResourceType, ScalePaths
from tfoperator.local.apiserver.storage.store import ServedView

Validator = Callable[[Json, Json | None], Iterable[FieldProblem]]
"""A function that returns the problems of an object. The arguments are the object, and its old version (None in a
create).
"""


class Column(msgspec.Struct, frozen=True, rename={"json_path": "jsonPath"}):
    """A column of `kubectl get`: one of `additionalPrinterColumns`.

    Columns with priority 1 are shown only by `-o wide`.
    """

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""


class CustomResource(msgspec.Struct, frozen=True):
    """One version of a CRD, in the form that the server needs.

    If this version is not the stored version, `view` converts objects from and to the stored version. `definition` is
    the whole CRD.
    """

    definition: Mapping[str, Any]
    resource: ResourceType
    openapi: Mapping[str, Any]
    columns: tuple[Column, ...]
    strategy: Strategy
    view: ServedView | None = None


Conversion = Callable[[Json], Json]
"""Converts an object to another version. The function may change its argument, because it gets a private copy."""

Check = Callable[[Json], object]
"""Raises StatusError for an object that passes all rules of its version but can't be converted."""


def custom_resource(crd: Mapping[str, Any], validator: Validator | None = None) -> CustomResource:
    """Read the stored version of a `CustomResourceDefinition` (apiextensions.k8s.io/v1)."""
    return _read_version(crd, next(v for v in crd["spec"]["versions"] if v.get("storage")), validator)


def custom_view(
    crd: Mapping[str, Any],
    name: str,
    stored: CustomResource,
    *,
    to_stored: Conversion,
    from_stored: Conversion,
    validator: Validator,
    convertible: Check,
) -> CustomResource:
    """Read a version of a CRD that is not the version `stored`.

    After a conversion into a version, the fields that the schema of this version lacks are removed, and the defaults of
    this schema are set. `convertible` is called for every write without other problems, also in a dry run.
    `convertible` raises an error if `to_stored` would fail.
    """
    versions = {version["name"]: version for version in crd["spec"]["versions"]}
    served = _read_version(crd, versions[name], validator, convertible)
    shown_schema, stored_schema = StructuralSchema(served.openapi), StructuralSchema(stored.openapi)

    def converted(convert: Conversion, schema: StructuralSchema, obj: Json) -> Json:
        result = convert(obj)
        schema.prune(result)
        schema.default(result)
        return result

    view = ServedView(
        served.resource,
        stored.resource,
        to_stored=lambda obj: converted(to_stored, stored_schema, obj),
        from_stored=lambda obj: converted(from_stored, shown_schema, obj),
    )
    return msgspec.structs.replace(served, view=view)


def _read_version(
    crd: Mapping[str, Any],
    version: Mapping[str, Any],
    validator: Validator | None,
    convertible: Check | None = None,
) -> CustomResource:
    spec = crd["spec"]
    names, subresources = spec["names"], version.get("subresources") or {}
    status = "status" in subresources
    resource = ResourceType(
        spec["group"],
        version["name"],
        names["kind"],
        names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        generation=True,
        custom=True,
        unconditional_update=False,
        subresources=tuple(name for name in ("scale", "status") if name in subresources),
        scale=_scale_paths(subresources["scale"]) if "scale" in subresources else None,
        fields=tuple(f["jsonPath"].lstrip(".") for f in version.get("selectableFields") or ()),
    )
    openapi = version["schema"]["openAPIV3Schema"]
    columns = tuple(msgspec.convert(c, Column) for c in version.get("additionalPrinterColumns") or ())
    strategy = CustomStrategy(StructuralSchema(openapi), status, resource.scale, validator, convertible)
    strategy.layout = custom_layout(openapi)
    return CustomResource(crd, resource, openapi, columns, strategy)


def _scale_paths(scale: Mapping[str, str]) -> ScalePaths:
    def parts(name: str) -> tuple[str, ...]:
        return tuple(part for part in scale.get(name, "").split(".") if part)

    return ScalePaths(parts("specReplicasPath"), parts("statusReplicasPath"), parts("labelSelectorPath"))


class CustomStrategy(Strategy):
    """The rules of apiextensions-apiserver that follow from a structural schema."""

    def __init__(
        self,
        schema: StructuralSchema,
        has_status: bool,
        scale: ScalePaths | None,
        validator: Validator | None,
        convertible: Check | None = None,
    ) -> None:
        """`has_status` means that the CRD has the subresource `/status`. Then writes to the object's own path do not
        change the status.
        """
        self._schema = schema
        self._status_schema = schema.only("status")
        self._has_status = has_status
        self._scale = scale
        self._validator = validator
        self._convertible = convertible

    def prune(self, obj: Json) -> list[str]:
        """Remove fields that the schema does not contain. Return the paths of these fields."""
        return self._schema.prune(obj)

    def prepare_create(self, obj: Json) -> None:
        """Set defaults. Also remove the status if the CRD has the subresource `/status`."""
        if self._has_status:
            obj.pop("status", None)
        self._schema.default(obj)

    def prepare_update(self, new: Json, old: Json) -> None:
        """Set defaults. Also keep the old status if the CRD has the subresource `/status`."""
        if self._has_status:
            keep(new, old, "status")
        self._schema.default(new)

    def prepare_status_update(self, new: Json, old: Json) -> None:
        """Take only the status from the write, and nothing else.

        In contrast, a write of the status of a built-in kind can also change labels.
        """
        written = {} if new.get("status") is None else {"status": new["status"]}
        new.clear()
        new.update(msgspec.json.decode(msgspec.json.encode(old)))  # a copy: defaulting changes it in place
        keep(new, written, "status")
        self._schema.default(new)

    def validate(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        """Return the problems that the schema finds.

        If the schema finds none, return the validator's problems. If the validator finds none either, call
        `convertible`, which raises an error if the object can't be converted to the stored version. If an update does
        not change the spec, only the status is checked. So writes of the status are cheap. kube-apiserver, too, does
        not apply newer rules to unchanged values.
        """
        problems = list(self._problems(obj, old))
        if not problems and self._convertible is not None:
            self._convertible(obj)
        return problems

    def _problems(self, obj: Json, old: Json | None) -> Iterable[FieldProblem]:
        if old is not None and content_of(obj) == content_of(old):
            return self._status_schema.validate(obj)
        problems = self._schema.validate(obj)
        if self._scale is not None:
            problems += _scale_problems(obj, self._scale)
        if problems or self._validator is None:
            return problems
        return self._validator(obj, old)


def _scale_problems(obj: Json, paths: ScalePaths) -> Iterator[FieldProblem]:
    """Yield a problem if the number of replicas in the object's Scale is negative.

    kube-apiserver reports this problem in addition to the problems that the schema finds.
    """
    replicas = member_at(obj, paths.spec_replicas)
    if isinstance(replicas, int) and replicas < 0:
        field = "." + ".".join(paths.spec_replicas)
        yield invalid_value(field, replicas, "should be a non-negative integer")
