"""Sets of field paths, with which server-side apply records ownership, and the JSON of these sets.

A path is a tuple of elements in the format of `FieldsV1`: `f:NAME` is a member, `k:{...}` is the item of a list with
these keys, and `v:VALUE` is a plain item of a set. An example is `("f:spec", "f:containers", 'k:{"name":"main"}',
"f:image")`. A path ends at an atomic value, or at an item of a list or of a map. In the second case, the path means
that the item exists. A list whose items can't be identified is atomic. All code in this module is pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tfoperator.kube.patches.merge_keys import merge_keys
from tfoperator.local.apiserver.members import Json

Path = tuple[str, ...]
FieldSet = frozenset[Path]

MISSING: Final = object()


class Layout(msgspec.Struct, frozen=True):
    """The properties of a kind's schema that ownership depends on.

    Paths have dots between names, as in `spec.tfReplicaSpecs.*.replicas`. `*` stands for each member that the schema
    does not name.
    """

    lists: Mapping[str, tuple[str, ...]]
    """For the path of each list: the keys that identify the list's items. Without keys, the list is a set of plain
    values. Lists that are not listed here are atomic.
    """
    members: frozenset[str] | None = None
    """The paths of the members that the schema names. None for a built-in kind: its maps with arbitrary keys contain
    only plain values, so their members need no special rule.
    """
    atomic: frozenset[str] = frozenset()
    """The objects that count as a single value (`x-kubernetes-map-type: atomic`)."""

    def below(self, dotted: str, name: str) -> str:
        """Return the path of a member of the value at the path `dotted`.

        The name is `*` if the schema does not name the member.
        """
        path = f"{dotted}.{name}" if dotted else name
        return path if self.members is None or path in self.members else f"{dotted}.*"

    def has_presence(self, dotted: str) -> bool:
        """Return whether the value at this path is an item of a map, such as `spec.tfReplicaSpecs.*`.

        A writer owns such an item itself, in addition to the item's fields.
        """
        return self.members is not None and dotted not in self.members

    def is_atomic(self, path: Path) -> bool:
        """Return whether the value at `path` is an object that counts as one value."""
        dotted = ""
        for element in path if self.atomic else ():
            dotted = self.below(dotted, element[2:]) if element.startswith("f:") else dotted
        return dotted in self.atomic


_SYSTEM_FIELDS = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "generateName", "selfLink", "managedFields"}
    | {"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"}
)
# Strategic merge patches identify the items of these lists by one key, and server-side apply by two keys.
_MORE_KEYS = {
    "containerPort": ("containerPort", "protocol"),
    "port": ("port", "protocol"),
    "topologyKey": ("topologyKey", "whenUnsatisfiable"),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
_METADATA = frozenset(f"metadata.{name}" for name in ("annotations", "finalizers", "labels", "ownerReferences"))


@cache
def builtin_layout(kind: str) -> Layout:
    """Return the layout of a built-in kind. For any other kind, return the layout of only its metadata."""
    return Layout({path: _MORE_KEYS.get(key, (key,)) if key else () for path, key in merge_keys(kind).items()})


def custom_layout(schema: Mapping[str, Any]) -> Layout:
    """Return the layout of a custom kind, from the `openAPIV3Schema` of its CRD."""
    lists, members, atomic = dict(builtin_layout("").lists), set(_METADATA), set[str]()

    def read(part: Mapping[str, Any], path: str) -> None:
        if part.get("x-kubernetes-map-type") == "atomic":
            atomic.add(path)
        kind = part.get("x-kubernetes-list-type")
        if kind in ("map", "set"):
            lists[path] = tuple(part.get("x-kubernetes-list-map-keys") or ())
            read(part.get("items") or {}, path)
        for name, member in (part.get("properties") or {}).items():
            here = f"{path}.{name}" if path else name
            members.add(here)
            read(member, here)
        if isinstance(others := part.get("additionalProperties"), Mapping):
            read(others, f"{path}.*")

    read(schema, "")
    return Layout(lists, frozenset(members), frozenset(atomic))


def fields_of(obj: Mapping[str, Any], layout: Layout) -> FieldSet:
    """Return the paths of all fields of an object, except its kind, its name, and the metadata that the server sets."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SYSTEM_FIELDS}
    members = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return frozenset(_walk({**members, **({"metadata": metadata} if metadata else {})}, (), "", layout))


def _walk(value: Any, path: Path, dotted: str, layout: Layout) -> Iterator[Path]:
    if isinstance(value, dict) and (value or not path) and dotted not in layout.atomic:
        if path and path[-1].startswith("f:") and layout.has_presence(dotted):
            yield path
        for name, member in value.items():
            yield from _walk(member, (*path, f"f:{name}"), layout.below(dotted, name), layout)
    elif isinstance(value, list) and value and (elements := item_elements(value, dotted, layout)) is not None:
        for element, item in zip(elements, value, strict=True):
            yield (*path, element)
            if isinstance(item, dict):
                yield from _walk(item, (*path, element), dotted, layout)
    elif value is not None:
        yield path


def item_elements(items: list[Any], dotted: str, layout: Layout) -> list[str] | None:
    """Return the element of a path (`k:{...}` or `v:VALUE`) for each item of a list.

    Return None if the items can't be identified: then the whole list is one value.
    """
    named = layout.lists.get(dotted)
    if named is None:
        return None
    if not named:
        return [f"v:{_compact(item)}" for item in items]
    elements = []
    for item in items:
        key = {name: item.get(name, _KEY_DEFAULTS.get(name)) for name in named} if isinstance(item, dict) else {}
        if not key or None in key.values():
            return None
        elements.append(f"k:{_compact(key)}")
    return elements if len(set(elements)) == len(elements) else None


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def is_item(path: Path) -> bool:
    """Return whether a path means that a list's item exists. Other paths lead to a value."""
    return path[-1].startswith(("k:", "v:"))


def is_key(path: Path) -> bool:
    """Return whether a path leads to a member that is a key of its item in a list."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def differs(old: Mapping[str, Any], new: Mapping[str, Any], path: Path, layout: Layout) -> bool:
    """Return whether two objects have different values at a path.

    For a path that only means that an item exists, return False. Return False, too, if both values are objects that are
    not atomic: the paths of their members show the differences.
    """
    before, after = value_at(old, path), value_at(new, path)
    if is_item(path) or before == after:
        return False
    return not (isinstance(before, dict) and isinstance(after, dict)) or layout.is_atomic(path)


def with_parents(fields: Iterable[Path]) -> FieldSet:
    """Return the paths, and all parents of the paths."""
    return frozenset(path[:length] for path in fields for length in range(1, len(path) + 1))


def value_at(obj: Any, path: Path) -> Any:
    """Return the value at a path in an object; MISSING if there is none."""
    for element in path:
        obj = _step(obj, element)
    return obj


def _step(value: Any, element: str) -> Any:
    if element.startswith("f:"):
        return value.get(element[2:], MISSING) if isinstance(value, dict) else MISSING
    index = _index(value, element)
    return MISSING if index is None else value[index]


def _index(items: Any, element: str) -> int | None:
    if not isinstance(items, list):
        return None
    wanted = json.loads(element[2:])
    if element.startswith("v:"):
        return items.index(wanted) if wanted in items else None
    for index, item in enumerate(items):
        if isinstance(item, dict) and all(item.get(k, _KEY_DEFAULTS.get(k)) == v for k, v in wanted.items()):
            return index
    return None


def remove(obj: Any, path: Path) -> None:
    """Remove the value at a path from an object, in place. Also remove parents that are empty after this."""
    element, rest = path[0], path[1:]
    child = _step(obj, element)
    if child is MISSING:
        return
    if rest:
        remove(child, rest)
        if child not in ({}, []):
            return
    if element.startswith("f:"):
        del obj[element[2:]]
    elif (index := _index(obj, element)) is not None:
        del obj[index]


def to_json(fields: FieldSet) -> Json:
    """Return a set of paths in the format of `fieldsV1`."""
    tree: Json = {}
    for path in sorted(fields):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in fields:
        node = tree
        for element in path:
            node = node[element]
        if node or path[-1].startswith("k:"):
            node["."] = {}
    return tree


def from_json(tree: Mapping[str, Any]) -> FieldSet:
    """Return the set of paths in a `fieldsV1`. Raises ValueError if it is invalid."""
    return frozenset(_paths(tree, ()))


def _paths(tree: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if path and (not tree or "." in tree):
        yield path
    for element, below in tree.items():
        if element != ".":
            _check(element, below)
            yield from _paths(below, (*path, element))


def _check(element: str, below: Any) -> None:
    kind, text = element[:2], element[2:]
    if kind not in ("f:", "k:", "v:") or not isinstance(below, dict):
        raise ValueError(f"{element[:64]!r} is not a valid element of a path")
    if kind == "k:" and not isinstance(json.loads(text), dict):
        raise ValueError(f"{element[:64]!r} names no keys")
    if kind == "v:":
        json.loads(text)


def dotted_path(path: Path) -> str:
    """Return a path in the format of conflict messages: `.spec.containers[name="main"].image`."""
    text = ""
    for element in path:
        key = element[2:]
        if element.startswith("k:"):
            key = ",".join(f"{name}={_compact(value)}" for name, value in json.loads(key).items())
        text += f".{key}" if element.startswith("f:") else f"[{'=' if element.startswith('v:') else ''}{key}]"
    return text
