"""The CustomResourceDefinitions of the custom types, in the form that clients read: complete, with status. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.objects.custom_resources import CustomResource


def definitions(custom: Iterable[CustomResource], now: datetime) -> Iterator[Json]:
    """Yield the CRD of each custom type once. In the CRD's status, the condition Established has the time `now`.

    The versions of one type share a CRD.
    """
    for crd in {c.definition["metadata"]["name"]: c.definition for c in custom}.values():
        yield _established(crd, timestamp(now))


def _established(crd: Mapping[str, Any], now: str) -> Json:
    names = crd["spec"]["names"]
    complete = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List", **names}
    conditions = (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    )
    return {
        "kind": crd["kind"],
        "apiVersion": crd["apiVersion"],
        "metadata": dict(crd["metadata"]),
        "spec": {"conversion": {"strategy": "None"}, **crd["spec"], "names": complete},
        "status": {
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
                for kind, reason, message in conditions
            ],
            "acceptedNames": complete,
            "storedVersions": [version["name"] for version in crd["spec"]["versions"] if version.get("storage")],
        },
    }
