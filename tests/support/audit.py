"""The requests of a user to an API server, from its audit log, beside the requests that RBAC rules allow."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from tests.support.cluster import Json, decode
from tests.support.eventually import eventually, eventually_holds
from tfoperator.kube.protocol.resources import SUBJECT_ACCESS_REVIEWS
from tfoperator.kube.protocol.verbs import ApiClient


class Right(NamedTuple):
    """A verb on a resource; a subresource follows its resource after a slash, as in rules."""

    group: str
    resource: str
    verb: str


def audit_policy(*users: str) -> str:
    """Every request of these users is written to the log, once it is answered."""
    rules = [{"level": "Metadata", "users": users}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    return json.dumps(policy)


VERSION = Right("", "/version", "get")
"""Everybody has it, by the cluster role system:public-info-viewer."""

SCHEMA = Right("", "/openapi/v3/apis/kubeflow.org/v1", "get")
"""Every account has it, by the cluster role system:discovery."""


class AuditTrail:
    """The requests of one user from now on."""

    def __init__(self, log: Path, user: str) -> None:
        self._log = log
        self._user = user
        self._start = log.stat().st_size if log.exists() else 0
        self._began = datetime.now(UTC)
        self._restarts: list[tuple[datetime, datetime]] = []

    @contextmanager
    def restart(self) -> Iterator[None]:
        """Refusals of this block don't count: an API server that starts refuses everything until it has read the roles.

        At the end of the block it must have read them (`wait_allowed`).
        """
        began = datetime.now(UTC)
        try:
            yield
        finally:
            self._restarts.append((began, datetime.now(UTC)))

    def entries(self) -> list[Json]:
        """All requests that have been answered, or whose answer has begun."""
        with self._log.open("rb") as file:
            file.seek(self._start)
            lines = file.read().splitlines(keepends=True)
        # The last line may still be being written.
        entries = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [entry for entry in entries if entry["user"]["username"] == self._user and self._is_new(entry)]

    def _is_new(self, entry: Json) -> bool:
        """Return whether a request came after the start: the log has an earlier client's watch only at its end."""
        return _received(entry) >= self._began

    def used(self) -> set[Right]:
        paths = {Right("", urlsplit(e["requestURI"]).path, e["verb"]) for e in self.entries() if not e.get("objectRef")}
        return paths | {
            Right(ref.get("apiGroup", ""), "/".join(filter(None, (ref["resource"], ref.get("subresource")))), e["verb"])
            for e in self.entries()
            if (ref := e.get("objectRef"))
        }

    def wait_used(self, rights: set[Right]) -> None:
        """Wait until each of these rights was used: a request is written down after its answer."""

        def all_used() -> None:
            missing = rights - self.used()
            assert not missing, missing

        eventually_holds(all_used, every=0.2, what="every right is used")

    def refused(self) -> list[str]:
        """Return the requests that RBAC, or an admission plugin, did not allow."""
        return [
            f"{entry['verb']} {entry['requestURI']}: {entry['responseStatus'].get('message')}"
            for entry in self.entries()
            if entry.get("responseStatus", {}).get("code") == 403
            and not any(began <= _received(entry) <= ended for began, ended in self._restarts)
        ]


def _received(entry: Json) -> datetime:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"])


def wait_allowed(client: ApiClient, user: str, *rights: Right, namespace: str = "") -> None:
    """Return when the user has these rights, in all namespaces or in one: API servers hear of roles and bindings a
    moment after they were made.
    """

    def allowed(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "group": right.group, "resource": resource, "subresource": subresource, "verb": right.verb,
            "namespace": namespace,
        }  # fmt: skip
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        return bool(client.create(SUBJECT_ACCESS_REVIEWS, "", review, decode)["status"].get("allowed"))

    for right in rights:
        eventually(lambda wanted=right: allowed(wanted), every=0.05, what=f"{user} may {right}")


def granted(rules: Sequence[dict[str, Any]]) -> set[Right]:
    """Every right that these rules give; a path that is no resource's stands in the resource's place."""
    paths = {
        Right("", path, verb) for rule in rules for path in rule.get("nonResourceURLs", ()) for verb in rule["verbs"]
    }
    return paths | {
        Right(group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def roles_of(text: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rules of every role in a stream of YAML documents, by kind and name."""
    roles = [
        document for document in yaml.safe_load_all(text) if document and document["kind"] in ("Role", "ClusterRole")
    ]
    return {(role["kind"], role["metadata"]["name"]): role["rules"] for role in roles}
