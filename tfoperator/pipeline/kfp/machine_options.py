"""Kubernetes options of a task, for containers and processes of this machine: variables, and folders at mount paths.

Claims are folders in the current folder. Secrets and ConfigMaps come only from files that the user names. So a pipeline
file from an untrusted author can't read anything else. Names and keys are checked before they are used in paths.
`ignored` returns the names of the options that have no meaning here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.base.private_files import make_folders
from tfoperator.base.yamldata.reader import MAX_BYTES, YamlError, read_documents
from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.context import FolderMount
from tfoperator.pipeline.kfp.claims import claim_folder, made_folder
from tfoperator.pipeline.kfp.options import Options, data_key, mount_path, object_name, sub_path, variable_name
from tfoperator.pipeline.kfp.pod_options import field_of, keys_of, named

ObjectData = Mapping[tuple[str, str], Mapping[str, bytes]]
"""The data of Secrets and ConfigMaps. The key is the kind and the name."""

MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""The beginning of a variable's name. The mount path follows, in capitals, with `_` in place of all characters except
letters and digits. The variable contains the path of the folder's content.
"""
FOLDERS = "mounts"
"""The name of a folder in the working directory of a launch. It contains the folders that are mounted."""
_KINDS = {"secret": ("Secret", "secretKey"), "configMap": ("ConfigMap", "configMapKey")}
_ON_PODS_ONLY = {
    "nodeSelector", "tolerations", "nodeAffinity", "podAffinity", "imagePullSecret", "activeDeadlineSeconds",
}  # fmt: skip
_BY_DOCKER = {"imagePullPolicy", "securityContext", "enabledSharedMemory"}
"""Options that Docker supports, but that have no meaning for a process."""
_PULLS = {"Always": "always", "Never": "never", "IfNotPresent": "missing"}


class MachineLayer(msgspec.Struct, frozen=True):
    """The variables and the mounts of a task on this machine."""

    variables: dict[str, str]
    mounts: tuple[FolderMount, ...]

    @property
    def places(self) -> dict[str, str]:
        """For processes: variables that contain the paths of the mounted folders on this machine."""
        return {
            MOUNT_VARIABLE + re.sub(r"[^A-Z0-9]+", "_", mount.path.upper()).strip("_"): mount.source
            for mount in self.mounts
        }


def read_objects(paths: Iterable[str]) -> dict[tuple[str, str], dict[str, bytes]]:
    """Return the data of the Secrets and ConfigMaps in manifests.

    Raises ComponentError, with the name of the file, and OSError. An object of any other kind is refused, because a
    pipeline uses no other objects of a manifest.
    """
    found: dict[tuple[str, str], dict[str, bytes]] = {}
    for path in paths:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        try:
            documents = [read.value for read in read_documents(data, path)]
        except YamlError as error:
            raise ComponentError(str(error)) from None
        for document in documents:
            kind, name, content = _object(path, document)
            if (kind, name) in found:
                raise ComponentError(f"{path}: {kind} {name} is there twice")
            found[kind, name] = content
    return found


class _Meta(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    kind: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] | None = None
    string_data: dict[str, str] | None = msgspec.field(default=None, name="stringData")
    binary_data: dict[str, bytes] | None = msgspec.field(default=None, name="binaryData")


def _object(path: str, document: Any) -> tuple[str, str, dict[str, bytes]]:
    try:
        given = msgspec.convert(document, _Object)
        if given.kind not in ("Secret", "ConfigMap"):
            raise ComponentError(
                f"{path}: the manifest may contain Secrets and ConfigMaps only, but has {given.kind!r}"
            )
        where = f"{path}: {given.kind} {given.metadata.name}"
        name = object_name(where, given.metadata.name)
        plain = given.data or {}
        found = msgspec.convert(plain, dict[str, bytes]) if given.kind == "Secret" else _encoded(plain)
    except msgspec.ValidationError as error:
        raise ComponentError(f"{path}: {error}") from None
    found |= (given.binary_data or {}) | _encoded(given.string_data or {})
    return given.kind, name, {data_key(where, key): value for key, value in found.items()}


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {key: text.encode() for key, text in texts.items()}


def layer_of(
    where: str, options: Options, objects: ObjectData, work: Path | None, facts: Mapping[str, str]
) -> MachineLayer:
    """Return the variables and mounts of a task. Make the folders in `work`, the working directory of its launch.

    Without `work`, no folder is made, and a text that names the Secret or ConfigMap replaces each of its values.
    `facts` are the values of those fields of a pod that have a meaning here. Raises ComponentError.
    """
    variables = dict(_variables(where, options, objects, facts, shown=work is not None))
    folder = None if work is None else work.absolute() / FOLDERS
    mounts = tuple(_mounts(where, options, objects, folder))
    if twice := sorted({mount.path for mount in mounts if sum(mount.path == other.path for other in mounts) > 1}):
        raise ComponentError(f"{where}: two volumes are mounted at {twice[0]}")
    return MachineLayer(variables, mounts)


def docker_arguments(where: str, options: Options) -> Json:
    """Return the arguments for Docker that correspond to these options.

    Raises ComponentError if a mount is only a part of a claim. The engine, which may run as root, mounts by a path. A
    program that uses the claim could replace the part by a link.
    """
    if any(item.get("subPath") for item in named(options, "pvcMount")):
        raise ComponentError(
            f"{where}.pvcMount.subPath: can't be used on Docker here, because a program could replace the folder by "
            "a symbolic link: mount the whole claim, or run the step as a process or as a pod"
        )
    found: Json = {}
    if policy := options.get("imagePullPolicy"):
        found["pull"] = _PULLS.get(policy, "missing")
    security = options.get("securityContext", {})
    if "runAsUser" in security:
        found["user"] = ":".join(str(security[field]) for field in ("runAsUser", "runAsGroup") if field in security)
    if (shared := options.get("enabledSharedMemory")) and shared.get("size"):
        found["shm_size"] = shared["size"]
    return found


def ignored(options: Iterable[str], *, docker: bool) -> list[str]:
    """Return the names of the options that have no meaning for a process, or for a Docker container."""
    return sorted(_ON_PODS_ONLY.union(() if docker else _BY_DOCKER).intersection(options))


def remove_folders(work: Path) -> None:
    """Remove the mounted folders of a launch, which may contain Secrets.

    Errors are ignored, because other users have no access to the folder.
    """
    shutil.rmtree(work / FOLDERS, ignore_errors=True)


def _data(where: str, item: Json, kind: str, objects: ObjectData) -> Mapping[str, bytes] | None:
    """Return the data of a Secret or ConfigMap. Return None if the object is optional and missing."""
    name = object_name(where, item["name"])
    if (found := objects.get((kind, name))) is None and not item.get("optional", False):
        raise ComponentError(
            f"{where}: {kind} {name} does not exist here: name a manifest that contains it with --manifest FILE"
        )
    return found


def _variables(
    where: str, options: Options, objects: ObjectData, facts: Mapping[str, str], *, shown: bool
) -> Iterator[tuple[str, str]]:
    for source in ("configMap", "secret"):
        kind, field = _KINDS[source]
        place = f"{where}.{source}AsEnv"
        for item in named(options, f"{source}AsEnv"):
            data = _data(place, item, kind, objects)
            for key, variable in keys_of(place, item, field) if data is not None else ():
                if key not in (data or {}):
                    if item.get("optional", False):
                        continue
                    raise ComponentError(f"{place}: {kind} {item['name']} has no key {key}")
                text = _text(f"{place}: {kind} {item['name']}, key {key}", (data or {})[key])
                yield variable, text if shown else f"(key {key} of {kind} {item['name']})"
    place, metadata = f"{where}.fieldPathAsEnv", options.get("podMetadata", {})
    for item in options.get("fieldPathAsEnv", ()):
        match = field_of(place, item.get("fieldPath", ""))
        members = metadata.get(match[2] or "", {})
        value = members.get(match["key"], "") if match["key"] else facts.get(match[0], "")
        yield variable_name(place, item.get("name")), value


def _text(where: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ComponentError(f"{where}: its value must be text, because it becomes an environment variable")
    return text


def _mounts(where: str, options: Options, objects: ObjectData, folder: Path | None) -> Iterator[FolderMount]:
    place = f"{where}.pvcMount"
    for item in named(options, "pvcMount"):
        part = sub_path(place, item.get("subPath", ""))
        source = claim_folder(item["name"])
        if folder is not None:
            made_folder(source)
        yield FolderMount(_part(place, source, part, make=folder is not None), mount_path(place, item.get("mountPath")))
    for source_of in ("secret", "configMap"):
        kind, _ = _KINDS[source_of]
        place = f"{where}.{source_of}AsVolume"
        for number, item in enumerate(named(options, f"{source_of}AsVolume")):
            path, data = mount_path(place, item.get("mountPath")), _data(place, item, kind, objects)
            yield FolderMount(_filled(folder, f"{source_of}-{number}", data or {}), path, read_only=True)
    for option in ("emptyDirMounts", "genericEphemeralVolume"):
        for number, item in enumerate(options.get(option, ())):
            path = mount_path(f"{where}.{option}", item.get("mountPath"))
            yield FolderMount(_empty(folder, f"{option}-{number}"), path)


def _part(where: str, claim: Path, part: str, *, make: bool) -> str:
    """Return the folder of a claim, or a folder in the claim.

    If a link leads to it, it is refused. Raises ComponentError.
    """
    path = claim
    for name in [folder for folder in part.split("/") if folder not in ("", ".")]:
        path /= name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise ComponentError(f"{where}.subPath: {path} must be a folder, and not a symbolic link")
        if make:
            path.mkdir(mode=0o777, exist_ok=True)
    return str(path)


def _filled(folder: Path | None, name: str, data: Mapping[str, bytes]) -> str:
    """Return a new folder with these files. The users of all containers can read it."""
    place = Path(_empty(folder, name))
    if folder is not None:
        for key, content in data.items():
            file = place / key
            if not file.exists() or file.read_bytes() != content:  # a program may read it, if a launch goes on
                file.write_bytes(content)
                file.chmod(0o644)
        place.chmod(0o755)
    return str(place)


def _empty(folder: Path | None, name: str) -> str:
    """Make an empty folder and return its path.

    If the folder exists, keep it, because its container may still be running.
    """
    place = (folder or Path(FOLDERS)) / name
    if folder is not None:
        make_folders(place)
        place.chmod(0o777)
    return str(place)
