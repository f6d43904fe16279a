"""Applies Kubernetes options of a task to a Docker container or a process of this machine.

Options such as `secretAsEnv` become environment variables, and options such as `pvcMount` become mounted folders.
Claims are folders in the current folder. Secrets and ConfigMaps come only from manifests that the user names with
`--manifest`. So a pipeline file from an untrusted author can't read anything else. Names and keys are checked before
they are used in paths. `ignored` returns the options that have no effect on this machine, such as `nodeSelector`.
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
"""The data of Secrets and ConfigMaps, by kind and name, such as `("Secret", "my-key")`."""

MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""The beginning of the name of a process's environment variable. The mount path follows, in capitals, with `_` in place
of all characters except letters and digits: `TFOPERATOR_MOUNT_ETC_MODEL` for `/etc/model`. The variable contains the
folder of this machine that a container would see at the mount path.
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
        """The variables for a process, which has no mounts. Each variable has the path of the folder of one mount.

        The name of the variable contains the path at which a container would mount the folder.
        """
        return {
            MOUNT_VARIABLE + re.sub(r"[^A-Z0-9]+", "_", mount.path.upper()).strip("_"): mount.source
            for mount in self.mounts
        }


def read_objects(paths: Iterable[str]) -> dict[tuple[str, str], dict[str, bytes]]:
    """Return the data of the Secrets and ConfigMaps in manifests, by kind and name of the object.

    Raises ComponentError, with the name of the file, if a manifest is invalid or too large, and OSError if a file can't
    be read. An object of any other kind is refused, because a pipeline uses no other objects of a manifest.
    """
    contents: dict[tuple[str, str], dict[str, bytes]] = {}
    for path in paths:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        try:
            documents = [read.value for read in read_documents(data, path)]
        except YamlError as error:
            raise ComponentError(str(error)) from None
        for document in documents:
            kind, name, content = _object(path, document)
            if (kind, name) in contents:
                raise ComponentError(f"{path}: {kind} {name} is there twice")
            contents[kind, name] = content
    return contents


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
        content = msgspec.convert(plain, dict[str, bytes]) if given.kind == "Secret" else _encoded(plain)
    except msgspec.ValidationError as error:
        raise ComponentError(f"{path}: {error}") from None
    content |= (given.binary_data or {}) | _encoded(given.string_data or {})
    return given.kind, name, {data_key(where, key): value for key, value in content.items()}


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {key: text.encode() for key, text in texts.items()}


def layer_of(
    where: str, options: Options, objects: ObjectData, work: Path | None, facts: Mapping[str, str]
) -> MachineLayer:
    """Return the variables and mounts of a task. Make the folders in `work`, the working directory of its launch.

    Without `work` (a dry run), the call makes no folder, and a variable contains `(key KEY of Secret NAME)` in place of
    a value. `facts` has values for fields of a pod, such as `metadata.name`. Raises ComponentError if an option is
    invalid, or names an object that no manifest contains.
    """
    variables = dict(_variables(where, options, objects, facts, shown=work is not None))
    folder = None if work is None else work.absolute() / FOLDERS
    mounts = tuple(_mounts(where, options, objects, folder))
    if twice := sorted({mount.path for mount in mounts if sum(mount.path == other.path for other in mounts) > 1}):
        raise ComponentError(f"{where}: two volumes are mounted at {twice[0]}")
    return MachineLayer(variables, mounts)


def docker_arguments(where: str, options: Options) -> Json:
    """Return the arguments for Docker that correspond to these options.

    Raises ComponentError if a mount has a `subPath`. The Docker engine, which may run as root, follows symbolic links
    in the source of a mount. A program that writes to the claim could replace the folder at `subPath` by a link to any
    folder of this machine.
    """
    if any(item.get("subPath") for item in named(options, "pvcMount")):
        raise ComponentError(
            f"{where}.pvcMount.subPath: can't be used with Docker on this machine, because a program could "
            "replace the folder by a symbolic link: mount the whole claim, or run the step as a process or as a pod"
        )
    arguments: Json = {}
    if policy := options.get("imagePullPolicy"):
        arguments["pull"] = _PULLS.get(policy, "missing")
    security = options.get("securityContext", {})
    if "runAsUser" in security:
        arguments["user"] = ":".join(str(security[field]) for field in ("runAsUser", "runAsGroup") if field in security)
    if (shared := options.get("enabledSharedMemory")) and shared.get("size"):
        arguments["shm_size"] = shared["size"]
    return arguments


def ignored(options: Iterable[str], *, docker: bool) -> list[str]:
    """Return the options that have no effect on a process of this machine or, with `docker`, on a Docker container."""
    return sorted(_ON_PODS_ONLY.union(() if docker else _BY_DOCKER).intersection(options))


def remove_folders(work: Path) -> None:
    """Remove the folder `mounts` of a launch, which may contain the data of Secrets.

    Errors are ignored: a folder that remains is in the working directory of the launch, which other users can't read.
    """
    shutil.rmtree(work / FOLDERS, ignore_errors=True)


def _data(where: str, item: Json, kind: str, objects: ObjectData) -> Mapping[str, bytes] | None:
    """Return the data of a Secret or ConfigMap. Return None if the object is optional and missing.

    Raises ComponentError if the object is missing and not optional.
    """
    name = object_name(where, item["name"])
    if (data := objects.get((kind, name))) is None and not item.get("optional", False):
        raise ComponentError(
            f"{where}: {kind} {name} is missing on this machine: add --manifest FILE, a file that contains this {kind}"
        )
    return data


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
    """Return the folder of a claim, or the folder at the sub-path `part` in it. With `make`, create the sub-path.

    Raises ComponentError if a part of the sub-path is a symbolic link, or is not a folder.
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
    """Make a folder that has a file for each key of a Secret or ConfigMap. Return its path.

    Any user ID of a container can read the files. Without `folder` (a dry run), make nothing.
    """
    place = Path(_empty(folder, name))
    if folder is not None:
        for key, content in data.items():
            file = place / key
            # If a launch is resumed, its program may be reading the file now: write it only if it has changed.
            if not file.exists() or file.read_bytes() != content:
                file.write_bytes(content)
                file.chmod(0o644)
        place.chmod(0o755)
    return str(place)


def _empty(folder: Path | None, name: str) -> str:
    """Make an empty folder and return its path. Without `folder` (a dry run), make nothing.

    If the folder exists, keep its content: the container of a resumed launch may still be running.
    """
    place = (folder or Path(FOLDERS)) / name
    if folder is not None:
        make_folders(place)
        place.chmod(0o777)
    return str(place)
