"""Strategic merge patch: lists of named things are merged by their key instead of being replaced.

The keys are those of the Go types' `patchMergeKey` tags, for the kinds served here. Lists that are not in the table
are replaced, as Kubernetes does with "atomic" ones. The directives `$patch`, `$retainKeys`,
`$deleteFromPrimitiveList/...` and `$setElementOrder/...` are the ones that kubectl sends.
"""

from __future__ import annotations

from typing import Any

from tfoperator.local.apiserver.errors import bad_request

__all__ = ["strategic_merge"]

_Dict = dict[str, Any]

_CONTAINER = {
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
_POD_SPEC = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    **{
        path: key
        for field in ("containers", "initContainers", "ephemeralContainers")
        for path, key in [(field, "name"), *((f"{field}.{name}", key) for name, key in _CONTAINER.items())]
    },
}
_METADATA = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_CONDITIONS = {"status.conditions": "type"}
_KEYS: dict[str, dict[str, str]] = {
    "Pod": {
        **{f"spec.{path}": key for path, key in _POD_SPEC.items()},
        **_CONDITIONS,
        "status.podIPs": "ip",
        "status.hostIPs": "ip",
    },
    "Service": {"spec.ports": "port", **_CONDITIONS},
    "Namespace": _CONDITIONS,
    "Node": {"status.addresses": "type", "spec.podCIDRs": "", **_CONDITIONS},
    "ServiceAccount": {"secrets": "name"},
}
"""By kind and path: the merge key of a list of objects, or "" for a merged list of plain values."""


def strategic_merge(obj: _Dict, patch: _Dict, kind: str) -> _Dict:
    """Apply a strategic merge patch to an object of a built-in kind. StatusError 400 for a malformed patch."""
    return _merge(obj, patch, {**_METADATA, **_KEYS.get(kind, {})}, "")


def _merge(obj: _Dict, patch: _Dict, keys: dict[str, str], path: str) -> _Dict:
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"error decoding patch: unknown directive $patch: {directive}")
    if "$retainKeys" in patch:
        obj = {name: value for name, value in obj.items() if name in patch["$retainKeys"]}
    server = dict(obj)
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            obj[field] = [item for item in obj.get(field) or () if item not in value]
        elif not name.startswith("$"):
            _merge_member(obj, name, value, keys, f"{path}.{name}" if path else name)
    for name, order in patch.items():
        if name.startswith("$setElementOrder/"):
            field = name.partition("/")[2]
            key = keys.get(f"{path}.{field}" if path else field)
            if isinstance(obj.get(field), list) and isinstance(order, list) and key is not None:
                obj[field] = _in_order(obj[field], order, server.get(field) or [], key)
    return obj


def _merge_member(obj: _Dict, name: str, value: Any, keys: dict[str, str], path: str) -> None:
    current = obj.get(name)
    if value is None:
        obj.pop(name, None)
    elif isinstance(value, dict):
        obj[name] = _merge(current if isinstance(current, dict) else {}, value, keys, path)
    elif isinstance(value, list) and path in keys:
        obj[name] = _merge_list(current if isinstance(current, list) else [], value, keys, path)
    else:
        obj[name] = value


def _merge_list(current: list[Any], patch: list[Any], keys: dict[str, str], path: str) -> list[Any]:
    key = keys[path]
    if not key:
        both = [*current, *(item for item in patch if item not in current)]
        return _in_order(both, patch, current, key)
    if not all(isinstance(item, dict) for item in patch):
        raise bad_request(f"error decoding patch: {path} is a list of objects")
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    merged = list(current)
    for item in patch:
        if key not in item:
            raise bad_request(f"error decoding patch: map: {item} does not contain declared merge key: {key}")
        position = next((i for i, old in enumerate(merged) if old.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != item[key]]
        elif position is None:
            merged.append(_merge({}, item, keys, path))
        else:
            merged[position] = _merge(merged[position], item, keys, path)
    return _in_order(merged, patch, current, key)


def _in_order(merged: list[Any], wanted: list[Any], server: list[Any], key: str) -> list[Any]:
    """The order that Kubernetes gives a merged list: what the patch names, as it names it, around what only exists.

    The others keep their order among themselves; one comes before an item of the patch only if it did so before.
    """
    order = [_identity(item, key) for item in wanted]
    before = [_identity(item, key) for item in server]
    named = sorted(
        (item for item in merged if _identity(item, key) in order), key=lambda item: order.index(_identity(item, key))
    )
    others = [item for item in merged if _identity(item, key) not in order]
    out: list[Any] = []
    while named and others:
        mine, theirs = _identity(named[0], key), _identity(others[0], key)
        first = mine in before and theirs in before and before.index(theirs) < before.index(mine)
        out.append(others.pop(0) if first else named.pop(0))
    return [*out, *named, *others]


def _identity(item: Any, key: str) -> Any:
    return item.get(key) if key and isinstance(item, dict) else item
