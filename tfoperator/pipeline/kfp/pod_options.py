"""Converts the Kubernetes options of a task into a layer (`layer_of`): a part of a pod, merged over the task's pod.

The author of a file may be untrusted. The options in a file can't mount a folder of a node, choose a service account,
or give a container more privileges, because such options do not exist. A file can't replace a volume of the pod,
because this module chooses the names of volumes. A file can't contain merge directives such as `$patch`, because every
field is checked. The module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.launcher import ComponentError
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.platforms.kubernetes.config import MAIN
from tfoperator.pipeline.kfp.options import (
    NODE_AFFINITY,
    TOLERATION_FORM,
    Options,
    annotations_of,
    check_size,
    choice,
    data_key,
    labels_of,
    mount_path,
    number,
    object_name,
    sub_path,
    variable_name,
)
from tfoperator.pipeline.kfp.spec import check

_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_FIELD = re.compile(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['(?P<key>[^'\]]{1,317})'\]"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIP|podIP|hostIPs|podIPs)",
    re.ASCII,
)
"""The fields of a pod that an environment variable can contain (`valueFrom.fieldRef.fieldPath`)."""


class KubernetesLayer(msgspec.Struct, frozen=True):
    """A part of a pod that is merged over a step's pod: its spec, labels, annotations and deadline.

    `deadline` is in seconds, and 0 means no deadline. The deadline is not in `spec`, because a TFJob has another field
    for deadlines (`runPolicy.activeDeadlineSeconds`).
    """

    spec: Json
    labels: dict[str, str]
    annotations: dict[str, str]
    deadline: int = 0


def layer_of(where: str, options: Options) -> KubernetesLayer:
    """Return the layer over the pod of a task.

    Raises ComponentError with a message that names the option and the option's field.
    """
    volumes: list[Json] = []
    mounts: list[Json] = []
    for source, mount in _volumes(where, options):
        name = f"kfp-{len(volumes)}"
        volumes.append({"name": name, **source})
        mounts.append({"name": name, **mount})
    main: Json = {"name": MAIN}
    if env := [*_variables(where, options)]:
        main["env"] = env
    if mounts:
        main["volumeMounts"] = mounts
    if policy := options.get("imagePullPolicy"):
        main["imagePullPolicy"] = choice(f"{where}.imagePullPolicy", policy, "Always", "Never", "IfNotPresent")
    if security := security_of(where, options):
        main["securityContext"] = security
    spec: Json = {"containers": [main]} if len(main) > 1 else {}
    if volumes:
        spec["volumes"] = volumes
    if pulled := [object_name(f"{where}.imagePullSecret", item["name"]) for item in named(options, "imagePullSecret")]:
        spec["imagePullSecrets"] = [{"name": name} for name in dict.fromkeys(pulled)]
    spec |= _placement(where, options)
    metadata = options.get("podMetadata", {})
    return KubernetesLayer(
        spec,
        labels_of(f"{where}.podMetadata.labels", metadata.get("labels", {})),
        annotations_of(f"{where}.podMetadata.annotations", metadata.get("annotations", {})),
        number(f"{where}.activeDeadlineSeconds", options.get("activeDeadlineSeconds", 0)),
    )


def named(options: Options, option: str) -> list[Json]:
    """Return the items of an option that have the name of a Secret, ConfigMap or claim.

    An item has no name if the name comes from an optional parameter that the task omits. Such an item has no effect.
    """
    return [item for item in options.get(option, ()) if item.get("name") not in (None, "")]


def security_of(where: str, options: Options) -> Json:
    """Return the container's `securityContext`: `runAsUser`, `runAsGroup` and `runAsNonRoot`, as far as given.

    A file can set no other field.
    """
    given = options.get("securityContext", {})
    security: Json = {
        field: number(f"{where}.securityContext.{field}", given[field])
        for field in ("runAsUser", "runAsGroup")
        if field in given
    }
    return {**security, **({"runAsNonRoot": given["runAsNonRoot"]} if "runAsNonRoot" in given else {})}


def field_of(where: str, path: str) -> re.Match[str]:
    """Return the match of a pod's field path, such as `metadata.labels['app']`; the group `key` is `app`.

    Raises ComponentError if an environment variable can't contain this field.
    """
    if (match := _FIELD.fullmatch(path)) is None:
        raise ComponentError(
            f"{where}.fieldPath: {path!r:.80} is not a field of a pod that an environment variable can contain"
        )
    return match


def keys_of(where: str, item: Json, key: str) -> list[tuple[str, str]]:
    """Return pairs of a key of a Secret or ConfigMap, and the environment variable that gets the key's value.

    `key` is the name of the field with the key, `secretKey` or `configMapKey`. Raises ComponentError if the key or the
    name of the variable is invalid.
    """
    return [
        (data_key(f"{where}.keyToEnv", pair.get(key)), variable_name(f"{where}.keyToEnv", pair.get("envVar")))
        for pair in item.get("keyToEnv", ())
    ]


def _variables(where: str, options: Options) -> Iterator[Json]:
    for option, source, key in (
        ("configMapAsEnv", "configMapKeyRef", "configMapKey"),
        ("secretAsEnv", "secretKeyRef", "secretKey"),
    ):
        place = f"{where}.{option}"
        for item in named(options, option):
            name = object_name(place, item["name"])
            for data, variable in keys_of(place, item, key):
                reference = {"name": name, "key": data, "optional": item.get("optional", False)}
                yield {"name": variable, "valueFrom": {source: reference}}
    place = f"{where}.fieldPathAsEnv"
    for item in options.get("fieldPathAsEnv", ()):
        path = item.get("fieldPath", "")
        field_of(place, path)
        yield {"name": variable_name(place, item.get("name")), "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _volumes(where: str, options: Options) -> Iterator[tuple[Json, Json]]:
    """Yield the source of each volume, and the mount of the volume."""
    for item in named(options, "pvcMount"):
        place = f"{where}.pvcMount"
        mount: Json = {"mountPath": mount_path(place, item.get("mountPath"))}
        if part := sub_path(place, item.get("subPath", "")):
            mount["subPath"] = part
        yield {"persistentVolumeClaim": {"claimName": object_name(place, item["name"])}}, mount
    for option, source, field in (
        ("secretAsVolume", "secret", "secretName"),
        ("configMapAsVolume", "configMap", "name"),
    ):
        place = f"{where}.{option}"
        for item in named(options, option):
            volume = {field: object_name(place, item["name"]), "optional": item.get("optional", False)}
            yield {source: volume}, {"mountPath": mount_path(place, item.get("mountPath"))}
    place = f"{where}.emptyDirMounts"
    for item in options.get("emptyDirMounts", ()):
        empty: Json = {}
        if item.get("medium"):
            empty["medium"] = choice(place, item["medium"], "Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi")
        if item.get("sizeLimit"):
            empty["sizeLimit"] = amount(place, item["sizeLimit"])
        yield {"emptyDir": empty}, {"mountPath": mount_path(place, item.get("mountPath"))}
    if (shared := options.get("enabledSharedMemory")) is not None:
        limit = {"sizeLimit": amount(f"{where}.enabledSharedMemory", shared["size"])} if shared.get("size") else {}
        yield {"emptyDir": {"medium": "Memory", **limit}}, {"mountPath": "/dev/shm"}
    place = f"{where}.genericEphemeralVolume"
    for item in options.get("genericEphemeralVolume", ()):
        yield _ephemeral(place, item), {"mountPath": mount_path(place, item.get("mountPath"))}


def _ephemeral(where: str, item: Json) -> Json:
    metadata = item.get("metadata", {})
    spec = claim_spec(where, item.get("accessModes", []), item.get("size"))
    if not item.get("defaultStorageClass"):
        spec["storageClassName"] = storage_class(where, item.get("storageClassName", ""))
    checked = {
        "labels": labels_of(f"{where}.metadata.labels", metadata.get("labels", {})),
        "annotations": annotations_of(f"{where}.metadata.annotations", metadata.get("annotations", {})),
    }
    return {"ephemeral": {"volumeClaimTemplate": {"metadata": {k: v for k, v in checked.items() if v}, "spec": spec}}}


def claim_spec(where: str, modes: Any, size: Any) -> Json:
    """Return the spec of a claim without its storage class.

    Raises ComponentError if the access modes or the size are invalid.
    """
    if not isinstance(modes, list) or not modes or len(modes) > len(_MODES):
        raise ComponentError(
            f"{where}.accessModes: must be a list of one to {len(_MODES)} access modes, but is {modes!r:.80}"
        )
    return {
        "accessModes": [choice(f"{where}.accessModes", mode, *_MODES) for mode in modes],
        "resources": {"requests": {"storage": amount(f"{where}.size", size)}},
    }


def storage_class(where: str, name: Any) -> str:
    """Return the name of a storage class if it is valid. Otherwise raise ComponentError.

    As in Kubernetes, "" means a volume without a storage class, and not the default class.
    """
    return "" if name == "" else object_name(f"{where}.storageClassName", name)


def amount(where: str, text: Any) -> str:
    """Return `text` if it is a quantity above 0, such as 5Gi. Otherwise raise ComponentError."""
    try:
        value = float(parse_quantity(text)) if isinstance(text, str) and len(text) <= _MAX_QUANTITY else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < _MAX_BYTES:
        raise ComponentError(f"{where}: must be an amount such as 5Gi, but is {text!r:.80}")
    return str(text)


_MAX_QUANTITY = 32
_MAX_BYTES = 2.0**63


def _placement(where: str, options: Options) -> Json:
    """Return the fields of a pod spec that determine the pod's node."""
    spec: Json = {}
    place, selector = f"{where}.nodeSelector", options.get("nodeSelector", {})
    chosen = selector.get("nodeSelectorJson")
    if chosen is not None:  # with `nodeSelectorJson`, `labels` are ignored, as in Kubeflow Pipelines
        check_size(place, chosen)
        check(place, chosen, {"*": str})
    if pairs := labels_of(place, selector.get("labels", {}) if chosen is None else chosen):
        spec["nodeSelector"] = pairs
    if tolerations := [*_tolerations(f"{where}.tolerations", options)]:
        spec["tolerations"] = tolerations
    affinity = {"nodeAffinity": _node_affinity(f"{where}.nodeAffinity", options)} | _pod_affinity(
        f"{where}.podAffinity", options
    )
    if affinity := {kind: rules for kind, rules in affinity.items() if rules}:
        spec["affinity"] = affinity
    return spec


def _tolerations(where: str, options: Options) -> Iterator[Json]:
    for item in options.get("tolerations", ()):
        given = item.get("tolerationJson", item) if item.keys() == {"tolerationJson"} else item
        check_size(where, given)
        for toleration in given if isinstance(given, list) else [given] if given is not None else []:
            check(where, toleration, TOLERATION_FORM)
            made = {key: value for key, value in toleration.items() if value not in (None, "")}
            if "tolerationSeconds" in made:
                made["tolerationSeconds"] = number(where, made["tolerationSeconds"], -_MAX_SECONDS, _MAX_SECONDS)
            if "effect" in made:
                choice(where, made["effect"], "NoSchedule", "PreferNoSchedule", "NoExecute")
            if "operator" in made:
                choice(where, made["operator"], "Exists", "Equal", "Lt", "Gt")
            if "key" in made:
                annotations_of(where, {made["key"]: ""})
            yield made


_MAX_SECONDS = 2**31 - 1


def _node_affinity(where: str, options: Options) -> Json:
    required: list[Json] = []
    preferred: list[Json] = []
    for item in options.get("nodeAffinity", ()):
        if item.keys() == {"nodeAffinityJson"}:
            if (given := item["nodeAffinityJson"]) is None:
                continue
            check_size(where, given)
            check(where, given, NODE_AFFINITY)
            terms = given.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
            required += [_node_term(where, term) for term in terms]
            for preferred_term in given.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
                preferred.append(
                    _weighted(
                        where,
                        preferred_term.get("weight"),
                        preference=_node_term(where, preferred_term.get("preference", {})),
                    )
                )
        elif "weight" in item:
            preferred.append(_weighted(where, item["weight"], preference=_node_term(where, item)))
        else:
            required.append(_node_term(where, item))
    return _affinity({"nodeSelectorTerms": required} if required else None, preferred)


def _affinity(required: Any, preferred: list[Json]) -> Json:
    rules = {
        "requiredDuringSchedulingIgnoredDuringExecution": required,
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return {rule: terms for rule, terms in rules.items() if terms}


def _weighted(where: str, weight: Any, **term: Json) -> Json:
    return {"weight": number(f"{where}.weight", weight, 1, 100), **term}


def _node_term(where: str, given: Mapping[str, Any]) -> Json:
    kinds = ("matchExpressions", "matchFields")
    term = {kind: _matches(where, given[kind], (*_OPERATORS, "Gt", "Lt")) for kind in kinds if given.get(kind)}
    if not term:
        raise ComponentError(f"{where}: a term must have matchExpressions or matchFields")
    return term


def _matches(where: str, given: list[Json], operators: tuple[str, ...]) -> list[Json]:
    expressions = []
    for match in given:
        key = match.get("key", "")
        annotations_of(where, {key: ""})
        made: Json = {"key": key, "operator": choice(where, match.get("operator"), *operators)}
        if values := match.get("values"):
            made["values"] = values
        expressions.append(made)
    return expressions


def _pod_affinity(where: str, options: Options) -> Json:
    affinities: Json = {}
    for anti, kind in ((False, "podAffinity"), (True, "podAntiAffinity")):
        required, preferred = [], []
        for item in options.get("podAffinity", ()):
            if item.get("anti", False) is not anti:
                continue
            term: Json = {"topologyKey": item.get("topologyKey", "")}
            annotations_of(where, {term["topologyKey"]: ""})
            for field, expressions, pairs in (
                ("labelSelector", "matchPodExpressions", "matchPodLabels"),
                ("namespaceSelector", "matchNamespaceExpressions", "matchNamespaceLabels"),
            ):
                selector: Json = {}
                if item.get(expressions):
                    selector["matchExpressions"] = _matches(where, item[expressions], _OPERATORS)
                if item.get(pairs):
                    selector["matchLabels"] = labels_of(where, item[pairs])
                if selector:
                    term[field] = selector
            if item.get("namespaces"):
                term["namespaces"] = [object_name(where, name) for name in item["namespaces"]]
            if "weight" in item:
                preferred.append(_weighted(where, item["weight"], podAffinityTerm=term))
            else:
                required.append(term)
        affinities[kind] = _affinity(required, preferred)
    return affinities
