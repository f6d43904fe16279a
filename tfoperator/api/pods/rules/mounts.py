"""The rules for the mounts and block devices of a container."""

from __future__ import annotations

from collections.abc import Mapping

from tfoperator.api.pods.rules.environment import sources_of
from tfoperator.api.pods.rules.faults import (
    Faults,
    Json,
    choice,
    forbidden,
    invalid,
    items,
    not_found,
    part,
    required,
    text,
)
from tfoperator.api.pods.rules.paths import descending

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def mount_faults(path: str, container: Json, volumes: Mapping[str, Json]) -> Faults:
    """Yield the faults of mounts and devices of the container at `path`; `volumes` are the valid volumes, by name."""
    devices = {text(device, "name"): text(device, "devicePath") for device in items(container, "volumeDevices")}
    mounts = {text(mount, "name"): text(mount, "mountPath") for mount in items(container, "volumeMounts")}
    seen_places: set[str] = set()
    for position, mount in enumerate(items(container, "volumeMounts")):
        at, name, place = f"{path}.volumeMounts[{position}]", text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield not_found(f"{at}.name", name, "must be the name of a volume of the pod")
        if not place:
            yield required(f"{at}.mountPath")
        if place in seen_places:
            yield invalid(f"{at}.mountPath", place, "must be the path of a single mount")
        seen_places.add(place)
        if name in devices:
            yield invalid(f"{at}.name", name, "must not be a device, too")
        if place in devices.values():
            yield invalid(f"{at}.mountPath", place, "must not be the path of a device, too")
        yield from _sub_path_faults(path, at, mount)
        yield from _propagation_faults(f"{path}.volumeMounts", mount, container)
    yield from _device_faults(path, container, mounts, volumes)


def _sub_path_faults(path: str, at: str, mount: Json) -> Faults:
    below, expression = text(mount, "subPath"), text(mount, "subPathExpr")
    yield from descending(f"{path}.volumeMounts.subPath", below)
    if below and expression:
        yield invalid(f"{at}.subPathExpr", expression, "must not be set beside subPath")
    yield from descending(f"{path}.volumeMounts.subPathExpr", expression)


def _propagation_faults(mounts: str, mount: Json, container: Json) -> Faults:
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        yield from choice(f"{mounts}.mountPropagation", propagation, _PROPAGATIONS)
        if propagation == "Bidirectional" and not part(container, "securityContext").get("privileged"):
            yield forbidden(f"{mounts}.mountPropagation", "Bidirectional needs a privileged container")
    if recursive is None:
        return
    yield from choice(f"{mounts}.recursiveReadOnly", recursive, _RECURSIVE)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield forbidden(f"{mounts}.recursiveReadOnly", "needs readOnly")
        if propagation not in (None, "None"):
            yield forbidden(f"{mounts}.recursiveReadOnly", "must not be set beside mountPropagation")


def _device_faults(path: str, container: Json, mounts: Mapping[str, str], volumes: Mapping[str, Json]) -> Faults:
    names: set[str] = set()
    paths: set[str] = set()
    for position, device in enumerate(items(container, "volumeDevices")):
        at, name, place = f"{path}.volumeDevices[{position}]", text(device, "name"), text(device, "devicePath")
        if not name:
            yield required(f"{at}.name")
        if name in names:
            yield invalid(f"{at}.name", name, "must be a single device")
        if name not in volumes:
            yield not_found(f"{at}.name", name, "must be the name of a volume of the pod")
        elif not {"persistentVolumeClaim", "ephemeral"} & set(sources_of(volumes[name])):
            yield invalid(f"{at}.name", name, "must be a claim to be used as a block device")
        if not place:
            yield required(f"{at}.devicePath")
        if place in paths:
            yield invalid(f"{at}.devicePath", place, "must not be the path of another device, too")
        if ".." in place.split("/"):
            yield invalid(f"{at}.devicePath", place, "must not contain '..'")
        else:
            paths.add(place)
        if name in mounts:
            yield invalid(f"{at}.name", name, "must not be mounted, too")
        if place in mounts.values():
            yield invalid(f"{at}.devicePath", place, "must not be the path of a mount, too")
        names.add(name)
        names.discard("")
