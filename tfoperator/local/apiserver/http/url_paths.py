"""The parser of URL paths. The parser is pure. Only this module contains the layout of Kubernetes' paths."""

from __future__ import annotations

from urllib.parse import unquote

import msgspec

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class ResourcePath(msgspec.Struct, frozen=True):
    """The path `/api/v1/namespaces/{namespace}/{plural}/{name}/{subresource}`.

    Parts at the end may be missing. The part `namespaces/{namespace}` is missing for a cluster-scoped resource, and for
    all namespaces. For a named API group, the path begins with `/apis/{group}/{version}`.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(raw_path: str) -> ResourcePath | None:
    """Split a percent-encoded path; return None if the path names no resource: for a discovery document, a health check
    or an invalid path.

    Each part is decoded after the path was split. So an encoded slash stays in its part, and can't change the path.
    """
    parts = [unquote(part) for part in raw_path.strip("/").split("/")]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return ResourcePath(group, version, plural, namespace, name, subresource)
