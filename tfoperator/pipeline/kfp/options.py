"""The Kubernetes options of a task, which kfp-kubernetes writes into `platforms.kubernetes.deploymentSpec`.

An option may come from a parameter, or from the output of another task. An option that depends on an output is known
only when the step begins. Every field is checked and every size is limited, because the author of the pipeline's file
may be untrusted. The module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.pipeline.kfp.parts import as_late
from tfoperator.pipeline.kfp.spec import GIVEN

_MAX_ITEMS = 100
"""The maximum number of items of a list, and of members of a map."""
_MAX_TEXT = 4096
_MAX_DEPTH = 20
_MAX_ANNOTATIONS = 256 << 10
"""The maximum total size of the annotations of an object in bytes, as in Kubernetes."""
_MAX_NUMBER = 2**31 - 1
"""The largest user ID and the longest deadline, as in Kubernetes."""

_MATCH = {"key": str, "operator": str, "values": [str]}
_SELECTOR_TERM = {"matchExpressions": [_MATCH], "matchFields": [_MATCH]}
_METADATA = {"labels": {"*": str}, "annotations": {"*": str}}
_CLAIM = {"accessModes": [str], "size": str, "defaultStorageClass": bool, "storageClassName": str}
_FROM_TASK = GIVEN["taskOutputParameter"]
_TOLERATION = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": object}
FORM = {
    "secretAsVolume": [{"secretName": str, "secretNameParameter": GIVEN, "mountPath": str, "optional": bool}],
    "secretAsEnv": [
        {
            "secretName": str,
            "secretNameParameter": GIVEN,
            "keyToEnv": [{"secretKey": str, "envVar": str}],
            "optional": bool,
        }
    ],
    "configMapAsVolume": [{"configMapName": str, "configMapNameParameter": GIVEN, "mountPath": str, "optional": bool}],
    "configMapAsEnv": [
        {
            "configMapName": str,
            "configMapNameParameter": GIVEN,
            "keyToEnv": [{"configMapKey": str, "envVar": str}],
            "optional": bool,
        }
    ],
    "pvcMount": [
        {
            "pvcNameParameter": GIVEN,
            "constant": str,
            "componentInputParameter": str,
            "taskOutputParameter": _FROM_TASK,
            "mountPath": str,
            "subPath": str,
        }
    ],
    "emptyDirMounts": [{"volumeName": str, "mountPath": str, "medium": str, "sizeLimit": str}],
    "genericEphemeralVolume": [{"volumeName": str, "mountPath": str, "metadata": _METADATA, **_CLAIM}],
    "enabledSharedMemory": {"volumeName": str, "size": str},
    "fieldPathAsEnv": [{"name": str, "fieldPath": str}],
    "podMetadata": _METADATA,
    "nodeSelector": {"labels": {"*": str}, "nodeSelectorJson": GIVEN},
    "tolerations": [{**_TOLERATION, "tolerationJson": GIVEN}],
    "nodeAffinity": [
        {"matchExpressions": [_MATCH], "matchFields": [_MATCH], "weight": float, "nodeAffinityJson": GIVEN}
    ],
    "podAffinity": [
        {
            "matchPodExpressions": [_MATCH],
            "matchPodLabels": {"*": str},
            "topologyKey": str,
            "namespaces": [str],
            "matchNamespaceExpressions": [_MATCH],
            "matchNamespaceLabels": {"*": str},
            "weight": float,
            "anti": bool,
        }
    ],
    "imagePullSecret": [{"secretName": str, "secretNameParameter": GIVEN}],
    "imagePullPolicy": str,
    "activeDeadlineSeconds": object,
    "securityContext": {"runAsUser": object, "runAsGroup": object, "runAsNonRoot": bool},
}
"""All options of kfp-kubernetes 2.17, by their names in the file. A file with any other field is refused, with the name
of the field.
"""

NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_SELECTOR_TERM]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": float, "preference": _SELECTOR_TERM}],
}
"""The form of `nodeAffinityJson`."""
TOLERATION_FORM = {**_TOLERATION, "tolerationSeconds": object}
"""The form of `tolerationJson`, or of each item if `tolerationJson` is a list."""

_NAMES = {"secret": ("secretName", "secretNameParameter"), "configMap": ("configMapName", "configMapNameParameter")}
_CLAIM_REFERENCES: tuple[str, ...] = ("taskOutputParameter", "componentInputParameter")
_JSON = ("nodeSelectorJson", "tolerationJson", "nodeAffinityJson")

Options = dict[str, Any]
"""Options by their names in the file, such as `secretAsEnv`. In an item of an option, the key `name` has the name of
the Secret, ConfigMap or claim, in place of the file's `secretName`, `secretNameParameter` ...
"""


def options_of(where: str, given: Json, resolve: Callable[[Json], Any]) -> Options:
    """Return the options of a task. An option that is known only during the run is a `Value`.

    `given` are the options in the file. `resolve` returns the constant or `Value` for an input in these options, such
    as `{"componentInputParameter": "secret"}`. Raises ComponentError with a message that names the field.
    """
    check_size(where, given)
    options: Options = {}
    for option, items in given.items():
        if isinstance(items, list):
            options[option] = as_late([_resolved(item, resolve) for item in items])
        else:
            options[option] = as_late(_resolved(items, resolve) if isinstance(items, dict) else items)
    return options


def _resolved(item: Json, resolve: Callable[[Json], Any]) -> Json:
    """Return an item of an option, in which values replace the references to inputs.

    The values of `name`, and of keys such as `tolerationJson`, can come from references. The older spelling
    `secretName` is used only if the newer spelling `secretNameParameter` is missing.
    """
    kept = {key: value for key, value in item.items() if key not in _REFERENCES}
    for older, newer in _NAMES.values():
        if newer in item:
            kept["name"] = resolve(item[newer])
        elif older in item:
            kept["name"] = item[older]
    for key in _JSON:
        if key in item:
            kept[key] = resolve(item[key])
    if "pvcNameParameter" in item:
        kept["name"] = resolve(item["pvcNameParameter"])
    elif claim := {key: item[key] for key in _CLAIM_REFERENCES if key in item}:
        kept["name"] = resolve(claim)
    elif "constant" in item:
        kept["name"] = item["constant"]
    return kept


_REFERENCES = frozenset(
    {
        "pvcNameParameter", "constant", "componentInputParameter", "taskOutputParameter", *_JSON,
        *(field for fields in _NAMES.values() for field in fields),
    }
)  # fmt: skip


def producers(given: Json) -> set[str]:
    """Return the names of the tasks whose outputs these options use.

    These tasks run before the task that has the options.
    """
    names = set()
    for items in given.values():
        for item in items if isinstance(items, list) else [items]:
            inputs = (item, *item.values()) if isinstance(item, dict) else ()
            for given_input in inputs:
                if isinstance(given_input, dict) and isinstance(given_input.get("taskOutputParameter"), dict):
                    names.add(str(given_input["taskOutputParameter"].get("producerTask", "")))
    return names


def check_size(where: str, value: Any, depth: int = 0) -> None:
    """Raise ComponentError if a text, list or map is too large or is nested too deep."""
    if depth > _MAX_DEPTH:
        raise ComponentError(f"{where[:200]} has more than {_MAX_DEPTH} levels of nesting")
    if isinstance(value, str) and len(value) > (_MAX_ANNOTATIONS if ".annotations" in where else _MAX_TEXT):
        raise ComponentError(f"{where} is too long: it has {len(value)} characters")
    if isinstance(value, list | dict) and len(value) > _MAX_ITEMS:
        raise ComponentError(f"{where} has {len(value)} members, but at most {_MAX_ITEMS} are allowed")
    if isinstance(value, dict):
        for key, member in value.items():
            check_size(f"{where}.{key[:_SHOWN]}", member, depth + 1)
    if isinstance(value, list):
        for number, member in enumerate(value):
            check_size(f"{where}[{number}]", member, depth + 1)


_SHOWN = 60
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED = re.compile(r"(?:(?P<prefix>[^/]+)/)?(?P<name>[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]{0,252}", re.ASCII)
_OURS = "tfoperator.launcher"


def object_name(where: str, name: Any) -> str:
    """Return `name` if it is a valid name of a Secret, ConfigMap or claim. Otherwise raise ComponentError.

    In this and the following functions, `where` is the beginning of the message, such as the path of the field.
    """
    if not isinstance(name, str) or len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise ComponentError(
            f"{where}: {name!r:.80} is not a valid name of an object: use at most 253 lower-case letters, digits, - "
            "and ., with a letter or digit at the beginning and at the end"
        )
    return name


def data_key(where: str, key: Any) -> str:
    """Return `key` if it is a valid key of a Secret or ConfigMap. Otherwise raise ComponentError."""
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key in (".", ".."):
        raise ComponentError(f"{where}: {key!r:.80} is not a valid key of a Secret or ConfigMap")
    return key


def variable_name(where: str, name: Any) -> str:
    """Return `name` if it is a valid name of an environment variable. Otherwise raise ComponentError."""
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
        raise ComponentError(f"{where}: {name!r:.80} is not a valid name of a variable")
    return name


def mount_path(where: str, path: Any) -> str:
    """Return `path` if it is an absolute path without `..` and `:`, and is not `/`. Otherwise raise ComponentError."""
    parts = path.split("/") if isinstance(path, str) else []
    if parts[:1] != [""] or ".." in parts or not any(parts) or set(path) & {":", "\0", "\n"}:
        raise ComponentError(
            f"{where}.mountPath: must be an absolute path below /, without .. and :, but is {path!r:.80}"
        )
    return str(path)


def sub_path(where: str, path: Any) -> str:
    """Return `path` if it is a relative path without `..`, or "". Otherwise raise ComponentError."""
    if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ComponentError(f"{where}.subPath: must be a relative path without .., but is {path!r:.80}")
    return path


def labels_of(where: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels `given` if all names and values are valid. Otherwise raise ComponentError."""
    for key, value in annotations_of(where, given).items():
        if not _LABEL_VALUE.fullmatch(value):
            raise ComponentError(f"{where}.{key}: {value!r:.80} is not a valid value of a label")
    return dict(given)


def annotations_of(where: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations `given` if they are valid.

    Raises ComponentError if a name is not valid in Kubernetes, if it begins with `tfoperator.launcher/` (the launcher
    sets these annotations), or if the annotations are too large.
    """
    for key, value in given.items():
        match = _QUALIFIED.fullmatch(key)
        prefix = match["prefix"] if match is not None else None
        if match is None or (prefix is not None and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix))):
            raise ComponentError(f"{where}: {key!r:.80} is not a valid name of a label or annotation")
        if prefix == _OURS:
            raise ComponentError(f"{where}: {key!r} must not be set here, because the launcher sets it")
        if not isinstance(value, str):
            raise ComponentError(f"{where}.{key}: {value!r:.80} is no text")
    if sum(len(key) + len(value) for key, value in given.items()) > _MAX_ANNOTATIONS:
        raise ComponentError(f"{where}: its names and values must have at most {_MAX_ANNOTATIONS} characters together")
    return dict(given)


def number(where: str, value: Any, least: int = 0, most: int = _MAX_NUMBER) -> int:
    """Return `value` as an int if it is a whole number from `least` to `most`. Otherwise raise ComponentError.

    The value may be a text, such as "3600", because the JSON of protocol buffers has 64-bit integers as text.
    """
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,12}", text) or not least <= int(text) <= most:
        raise ComponentError(f"{where}: must be a whole number from {least} to {most}, but is {value!r:.80}")
    return int(text)


def choice(where: str, value: Any, *allowed: str) -> str:
    """Return the value if it is in `allowed`. Otherwise raise ComponentError."""
    if value not in allowed:
        raise ComponentError(f"{where}: {value!r:.80} is none of {', '.join(allowed)}")
    return str(value)
