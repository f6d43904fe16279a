"""Merges pod specs in layers, as in the TFX design: the component's pod, the default config, the component's config.

Each layer is a strategic merge patch, as in `kubectl patch`, with these additions. If a patch sets another source of a
volume or variable (`secret` in place of `emptyDir`), the old source is removed, because API servers refuse two sources.
In merged lists, old items come first, and new items follow. If the merge would lose an item, for example because two
ports have the same number, it raises an error. The result contains the origin of every value, so a dry run can show
which layer has set it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.kube.patches.merge_keys import ONE_OF, merge_keys
from tfoperator.kube.patches.strategic_merge import StrategicMergeError, strategic_merge
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.errors import PlatformConfigError
from tfoperator.launcher.platforms.kubernetes.config import PodLayer

BASE = "component"
"""The origin of values that come from the component, and not from a platform config."""

_KIND = "Pod"
_SECOND_KEYS = {"ports": ("protocol", "TCP"), "topologySpreadConstraints": ("whenUnsatisfiable", "")}
"""Lists whose items may have the same merge key: an additional field that distinguishes the items, and its default. Two
ports, for example, may have the same `containerPort` with the protocols TCP and UDP.
"""


class MergedPod(msgspec.Struct, frozen=True):
    """The merged pod, and the origin of each value by path (`spec.containers[main].image`)."""

    pod: Json
    origins: Mapping[str, str]


def merge_layers(base: Json, layers: Sequence[PodLayer]) -> MergedPod:
    """Return the base after all layers were merged over it, in order.

    Raises PlatformConfigError, which names the layer and the field, if a layer can't be merged: for example because a
    list has no merge key, or because the merge would lose an item of a list.
    """
    keys = merge_keys(_KIND)
    pod = copy.deepcopy(base)
    values = dict(_leaves(pod, keys, "", ""))
    origins = dict.fromkeys(values, BASE)
    for layer in layers:
        try:
            patch = _prepared(pod, layer.patch, keys, "")
            merged = strategic_merge(pod, patch, _KIND)
        except StrategicMergeError as error:
            raise PlatformConfigError(f"{layer.origin}: {error}") from error
        pod = _ordered(merged, pod, layer.patch, keys, "")
        after = dict(_leaves(pod, keys, "", ""))
        origins = {
            path: origins[path] if path in values and values[path] == value else layer.origin
            for path, value in after.items()
        }
        values = after
    return MergedPod(pod, origins)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _items(value: Any, key: str) -> list[Json]:
    """Return the items of a list that are objects with the field `key`. Return [] if the value is not a list."""
    return [item for item in value if isinstance(item, dict) and key in item] if isinstance(value, list) else []


def _prepared(base: Any, patch: Json, keys: Mapping[str, str], path: str) -> Json:
    """Return the patch, with `$retainKeys` added to each volume or variable whose source it changes.

    With this directive, the merge removes the old source. Raises StrategicMergeError if the merge would lose an item of
    a list.
    """
    out: Json = {}
    for name, value in patch.items():
        where, old = _join(path, name), base.get(name) if isinstance(base, dict) else None
        if isinstance(value, dict):
            out[name] = _prepared(old, value, keys, where)
        elif isinstance(value, list) and keys.get(where):
            key = keys[where]
            before = {str(item[key]): item for item in _items(old, key)}
            _check_unique(value, before, key, where)
            out[name] = [_prepared_item(item, before, keys, where) for item in value]
        else:
            out[name] = value
    return out


def _prepared_item(item: Any, before: Mapping[str, Json], keys: Mapping[str, str], where: str) -> Any:
    if not isinstance(item, dict):
        return item
    old = before.get(str(item.get(keys[where])))
    prepared = _prepared(old, item, keys, where)
    stated = [name for name, value in item.items() if value is not None and not name.startswith("$")]
    if where in ONE_OF and old is not None and len(stated) > 1 and not any(n.startswith("$") for n in item):
        prepared["$retainKeys"] = stated
    return prepared


def _check_unique(items: list[Any], before: Mapping[str, Json], key: str, where: str) -> None:
    items_by_key = dict(before)
    own: set[str] = set()
    beside, default = _SECOND_KEYS.get(where.rpartition(".")[2], ("", ""))
    for item in _items(items, key):
        value = str(item[key])
        if value in own and "$patch" not in item:
            raise StrategicMergeError(
                f"{where}: {key} {value} must not appear twice, because Kubernetes merges this list by {key}, and "
                "one item would be lost"
            )
        old = items_by_key.get(value)
        if beside and old is not None and item.get(beside, default) != old.get(beside, default) and beside in item:
            raise StrategicMergeError(
                f"{where}: {key} {value} already exists with {beside} {old.get(beside, default)!r}; Kubernetes "
                f"merges this list by {key} alone, so one of the items would be lost"
            )
        own.add(value)
        items_by_key[value] = item


def _ordered(merged: Json, before: Any, patch: Any, keys: Mapping[str, str], path: str) -> Json:
    """Return the merged object with its lists in another order: the items of `before`, then the new items of `patch`.

    If the patch has the directive `$setElementOrder/NAME`, the order of the list NAME is unchanged.
    """
    out: Json = {}
    for name, value in merged.items():
        where = _join(path, name)
        old = before.get(name) if isinstance(before, dict) else None
        new = patch.get(name) if isinstance(patch, dict) else None
        if isinstance(value, dict):
            out[name] = _ordered(value, old, new, keys, where)
        elif isinstance(value, list) and (key := keys.get(where)) and len(_items(value, key)) == len(value):
            olds, news = ({str(item[key]): item for item in _items(side, key)} for side in (old, new))
            items = [
                _ordered(item, olds.get(str(item.get(key))), news.get(str(item.get(key))), keys, where)
                for item in value
            ]
            if not isinstance(patch, dict) or f"$setElementOrder/{name}" not in patch:
                rank = {value: position for position, value in enumerate([*olds, *(n for n in news if n not in olds)])}
                items.sort(key=lambda item: rank.get(str(item.get(key)), len(rank)))
            out[name] = items
        else:
            out[name] = value
    return out


def _leaves(value: Any, keys: Mapping[str, str], path: str, shown: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each leaf: text, numbers, and lists without a merge key.

    A yielded path has the form `spec.containers[main].image`. `shown` is the path of `value` in this form. `path` is
    the path of `value` without the keys of items (`spec.containers.image`), as in `keys`.
    """
    if isinstance(value, dict) and value:
        for name, member in value.items():
            yield from _leaves(member, keys, _join(path, name), _join(shown, name))
    elif isinstance(value, list) and value and (key := keys.get(path)) and len(_items(value, key)) == len(value):
        for item in value:
            for name, member in item.items():
                if name != key:
                    yield from _leaves(member, keys, _join(path, name), f"{shown}[{item.get(key)}].{name}")
            if len(item) == 1:
                yield f"{shown}[{item.get(key)}]", item
    else:
        yield shown, value
