"""Random pod templates from a seed: valid templates, and templates that are spoilt in one or two places.

A valid template is put together from parts that people use. A spoilt template is changed at random places: a member
goes, or gets a value of the pools below, or an item is there twice, or an unset member of the type's table appears.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tfoperator.api.pods import types

Json = dict[str, Any]

LABELS = {"app": "trainer", "tier": "worker"}

PARTS: Mapping[str, Sequence[Json]] = yaml.safe_load(Path(__file__).with_name("template_parts.yaml").read_text())
"""Parts of valid templates, by what they are a part of."""


def _maybe(rng: random.Random, share: float, **members: Any) -> Json:
    """These members, in a share of all cases."""
    return copy.deepcopy(members) if rng.random() < share else {}


def _container(rng: random.Random, name: str, volumes: list[Json], *, init: bool = False) -> Json:
    source = rng.choice([{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys", "optional": True}}])
    ports = [{"name": "tfjob-port", "containerPort": 2222}, {"name": "web", "containerPort": 80, "protocol": "TCP"}]
    container = {
        "name": name,
        "image": "example.com/x:1",
        "command": ["python", "-c", "print(1)"],
        **_maybe(rng, 0.5, env=rng.sample(PARTS["variables"], rng.randint(1, 4))),
        **_maybe(rng, 0.3, envFrom=[{"prefix": "P_", **source}]),
        **_maybe(rng, 0.5, ports=ports),
        **_maybe(rng, 0.6, resources=rng.choice(PARTS["resources"])),
        **_maybe(rng, 0.4, securityContext=rng.choice(PARTS["securityContexts"])),
        **(_maybe(rng, 0.3, restartPolicy="Always") if init else _of_main(rng)),
    }
    for index, volume in enumerate(volumes):
        mount = {"name": volume["name"], "mountPath": f"/mnt/{index}"}
        container.setdefault("volumeMounts", []).append(
            mount | rng.choice([{}, {"subPath": "a/b"}, {"readOnly": True}, {"mountPropagation": "HostToContainer"}])
        )
    return container


def _of_main(rng: random.Random) -> Json:
    """Return fields that an init container can't have."""
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    lifecycle = {"preStop": {"exec": {"command": ["sync"]}}, "postStart": {"sleep": {"seconds": 1}}}
    fields = {
        **_maybe(rng, 0.2, lifecycle=lifecycle),
        **_maybe(rng, 0.1, restartPolicy="Never", restartPolicyRules=rules),
    }
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        fields |= _maybe(rng, 0.2, **{kind: rng.choice(PARTS["probes"])})
    return fields


def valid_template(rng: random.Random) -> Json:
    """A template that an API server takes."""
    volumes = [
        {"name": f"volume-{index}", **copy.deepcopy(source)}
        for index, source in enumerate(rng.sample(PARTS["volumes"], rng.choice([0, 0, 1, 1, 2, 3])))
    ]
    spec: Json = {"containers": [_container(rng, "tensorflow", volumes)]}
    if rng.random() < 0.3:
        spec["containers"].append(_container(rng, "helper", []))
    if rng.random() < 0.2:
        spec["containers"][0].setdefault("ports", []).append({"containerPort": 9000, "hostPort": 9000})
    if rng.random() < 0.3:
        spec["initContainers"] = [_container(rng, "prepare", volumes[:1], init=True)]
    if volumes:
        spec["volumes"] = volumes
    for part in rng.sample(PARTS["spec"], rng.choice([0, 1, 1, 2])):
        spec.update(copy.deepcopy(part))
    if spec.get("hostNetwork"):
        spec.pop("hostnameOverride", None)
    return {"metadata": {"labels": dict(LABELS), "annotations": {"example.com/note": "x"}}, "spec": spec}


WORDS = (
    "", " ", "A", "a", "a b", "a_b", "a.b", "-a", "a-", "..", "../a", "a/../b", "/a", "a:b", "x" * 64, "x" * 254,
    "Always", "Never", "None", "Exists", "In", "0", "1", "TCP", "tensorflow",
    "volume-0", "2222", "${X}", "A=B", "e\u0301", "1.2.3.4",
    "metadata.labels", "metadata.name", "limits.memory",
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 101, 511, 512, 600, 65535, 65536, 70000, 2**31 - 1, 2**31, 2**40)
QUANTITIES = ("0", "-1", "1", "0.5", "500m", "1Gi", "64Gi", "100", "1.5", "3Mi", "much", "1 Gi", 7, 0.25)
RESOURCE_NAMES = (
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "gpu",
    "example.com/a b",
    "hugepages-2Mi",
    "pods",
    "requests.cpu",
    "kubernetes.io/a",
)
# Kinds that need features or objects that no server of the test has, or that decide before the rules do.
NOT_TRIED = frozenset(
    {"priorityClassName", "priority", "runtimeClassName", "overhead", "ephemeralContainers", "serviceAccountToken",
     "clusterTrustBundle", "podCertificate", "windowsOptions", "nodeName", "serviceAccount",
     "serviceAccountName", "evictionResponders", "schedulingGroup", "resourceClaimName", "dataSource", "dataSourceRef",
     "fieldsV1", "privileged", "hostIP", "preemptionPolicy"}
)  # fmt: skip


def _value(rng: random.Random, kind: str, depth: int = 0) -> Any:
    """Return a random value of a type, often a bad value."""
    prefix, name = types.schema_kind(kind)
    if rng.random() < 0.03:
        return rng.choice([None, 7, "text", True, [], {}, ["a"], {"a": "b"}])
    if prefix == types.LIST:
        return [_value(rng, name, depth + 1) for _ in range(rng.choice([0, 1, 1, 2]))]
    if prefix == types.MAP:
        keys = RESOURCE_NAMES if name == types.QUANTITY else WORDS
        return {rng.choice(keys): _value(rng, name, depth + 1) for _ in range(rng.choice([0, 1, 1]))}
    match name:
        case types.STRING | types.TIME:
            return rng.choice(WORDS)
        case types.BOOLEAN:
            return rng.random() < 0.5
        case types.INT32 | types.INT64:
            return rng.choice(NUMBERS)
        case types.QUANTITY:
            return rng.choice(QUANTITIES)
        case types.INT_OR_STRING:
            return rng.choice([*NUMBERS, *WORDS])
        case types.OBJECT:
            return {}
    of = types.pod_types()[name]
    fields = [field for field in of.fields if field not in NOT_TRIED]
    chosen = {*of.required, *rng.sample(fields, min(len(fields), rng.choice([0, 1, 1, 2])))} - NOT_TRIED
    return {field: _value(rng, of.fields[field], depth + 1) for field in sorted(chosen)} if depth < 4 else {}


def _places(value: Any, kind: str) -> Iterator[tuple[Any, Any, str, str]]:
    """Yield each part of a value: its parent, its key there, its type, and the parent's type."""
    prefix, name = types.schema_kind(kind)
    if prefix == types.LIST and isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index, name, kind
            yield from _places(item, name)
    elif prefix == types.MAP and isinstance(value, dict):
        for key in value:
            yield value, key, name, kind
    elif isinstance(value, dict) and (of := types.pod_types().get(kind)) is not None:
        for field, item in value.items():
            if field in of.fields and field not in NOT_TRIED:
                yield value, field, of.fields[field], kind
                yield from _places(item, of.fields[field])


def spoil(rng: random.Random, template: Json) -> None:
    """Change a template at one random place, in place. It may still be valid."""
    places = list(_places(template["spec"], "PodSpec"))
    if not places:
        return
    holder, key, kind, holder_kind = rng.choice(places)
    action = rng.random()
    if action < 0.2:
        del holder[key]
    elif action < 0.35 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif action < 0.6 and isinstance(holder, dict) and (of := types.pod_types().get(holder_kind)) is not None:
        field = rng.choice(sorted(of.fields.keys() - NOT_TRIED))
        holder[field] = _value(rng, of.fields[field])
    elif action < 0.7 and isinstance(holder, dict) and holder_kind.startswith(types.MAP):
        names = RESOURCE_NAMES if kind == types.QUANTITY else WORDS
        holder[rng.choice(names)] = holder.pop(key)
    else:
        holder[key] = _value(rng, kind)


def templates(seed: int, count: int) -> Iterator[Json]:
    """Yield so many templates: a tenth is valid, and the others are spoilt in one or two places."""
    for number in range(count):
        rng = random.Random(f"{seed}-{number}")
        template = valid_template(rng)
        for _ in range(0 if number % 10 == 0 else rng.choice([1, 1, 2])):
            spoil(rng, template)
        yield template
