"""What `tfoperator run` can create and bring to an end, asked before anything is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfoperator.api.loading import Manifest
from tfoperator.api.validation import MANAGED_BY_OPERATOR
from tfoperator.cli.manifests import is_tfjob, title
from tfoperator.cli.terminal.errors import CliError

_NAMESPACE = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def check_runnable(manifests: Sequence[Manifest], namespace: str = "default") -> None:
    """Refuse jobs that never begin, so that nobody waits for their end, and objects that are there twice.

    `manifests` are as `checked` returns them; `namespace` is for objects that don't name one. Raises CliError with
    every reason.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise CliError(f"--namespace: {namespace!r} can't be the name of a namespace", "Nothing was started.")
    found = [*_wrong_places(manifests, namespace)]
    found += [
        f"{manifest.place(field)}: {field}: {title(manifest)} would never {what}"
        for manifest in manifests
        if is_tfjob(manifest.obj)
        for field, what in _obstacles(manifest.obj.get("spec") or {})
    ]
    if found:
        raise CliError("\n".join(found), "Nothing was started.")


def _wrong_places(manifests: Sequence[Manifest], namespace: str) -> Iterator[str]:
    """Objects that have the name of another one of their kind, or are in a namespace that there can't be."""
    from tfoperator.kube.resources import NAMESPACES
    from tfoperator.local.manifest_resources import resource_of

    first: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        resource, metadata = resource_of(manifest.obj), manifest.obj.get("metadata")
        if resource is None or resource == NAMESPACES or not isinstance(metadata, dict):
            continue
        where = str(metadata.get("namespace") or namespace)
        if not _NAMESPACE.fullmatch(where):
            yield f"{manifest.place('metadata.namespace')}: {where!r} can't be the name of a namespace"
        name = metadata.get("name")
        if not name:
            continue  # it is generated
        before = first.setdefault((resource.plural, where, str(name)), manifest)
        if before is not manifest:
            yield f"{manifest.place('metadata.name')}: {title(manifest)} is there already, at {before.place()}"


def _obstacles(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields that keep a job from its end, and how."""
    policy = spec.get("runPolicy") or {}
    if policy.get("suspend"):
        yield (
            "spec.runPolicy.suspend",
            "begin: it is suspended, and nobody here resumes it. Set it to false",
        )
    manager = policy.get("managedBy")
    if manager and manager != MANAGED_BY_OPERATOR:
        yield "spec.runPolicy.managedBy", f"begin: it is left to {manager}, which is not here. Remove managedBy"
    replicas = [(replica or {}).get("replicas") for replica in (spec.get("tfReplicaSpecs") or {}).values()]
    if replicas and all(number == 0 for number in replicas):
        yield "spec.tfReplicaSpecs", "end: it asks for no replica at all. Ask for one or more"
