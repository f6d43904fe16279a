"""Which TFJobs `tfoperator run` can bring to an end, asked before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfoperator.api.loading import Manifest
from tfoperator.api.validation import MANAGED_BY_OPERATOR
from tfoperator.cli.manifests import is_tfjob, title
from tfoperator.cli.terminal.errors import CliError


def check_runnable(manifests: Sequence[Manifest]) -> None:
    """Refuse jobs that never begin, so that nobody waits for their end. They are valid, and as `checked` returns them.

    Raises CliError with every reason.
    """
    found = [
        f"{manifest.place(field)}: {field}: {title(manifest)} would never {what}"
        for manifest in manifests
        if is_tfjob(manifest.obj)
        for field, what in _obstacles(manifest.obj.get("spec") or {})
    ]
    if found:
        raise CliError("\n".join(found), "Nothing was started.")


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
