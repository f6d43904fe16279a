"""Applies strategic merge patches with the Kubernetes library, and stores the results as test data.

python hack/strategic_vectors.py     writes tests/unit/kube/patches/strategic_vectors.jsonl again

The patches are the cases of `PICKED`, and random patches of random pods, which are the same in each run. The results
come from hack/gomod/kubernetes/strategic, which needs Go. Tests read only the file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import gobuild

Json = dict[str, Any]

VECTORS = Path(__file__).resolve().parent.parent / "tests/unit/kube/patches/strategic_vectors.jsonl"
RANDOM_CASES = 300


def _containers(*items: Json, **spec: Any) -> Json:
    return {"spec": {"containers": list(items), **spec}}


_MAIN = {"name": "main", "image": "a:1", "args": ["x"], "env": [{"name": "A", "value": "1"}]}
_VOLUME = {"name": "v", "configMap": {"name": "c"}}

PICKED: tuple[tuple[str, Json, Json], ...] = (
    # The three layers of the TFX design document, two at a time.
    (
        "Pod",
        _containers({"name": "main", "image": "tensorflow/tensorflow:v1.13", "command": ["python", "-c", "ml/app.py"]}),
        _containers(
            {"name": "main", "resources": {"limits": {"memory": "128Mi", "cpu": "500m"}}},
            serviceAccountName="PipelineRunner",
        ),
    ),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "env": [{"name": "P", "value": "password"}]})),
    # Nulls, mismatches, lists that are absent.
    ("Pod", _containers(_MAIN, hostNetwork=True), {"spec": {"hostNetwork": None, "nodeName": None}}),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "image": None, "env": None})),
    ("Pod", {"spec": {}}, _containers({"name": "n", "image": None, "env": [{"name": "E", "value": None}]})),
    ("Pod", _containers(_MAIN), {"spec": None}),
    ("Pod", {"spec": {"containers": "text"}}, _containers(_MAIN)),
    ("Pod", _containers(_MAIN), {"spec": {"containers": {"name": "main"}}}),
    ("Pod", {"spec": {"hostNetwork": True}}, {"spec": {"hostNetwork": False, "priority": 0}}),
    ("Pod", {"spec": {"priority": None}}, {"spec": {"priority": 1}}),
    ("Pod", {"spec": {}}, {"spec": {"volumes": [{"name": "v", "$patch": "delete"}, {"name": "w", "emptyDir": {}}]}}),
    ("Pod", {"spec": {}}, {"spec": {"securityContext": {"$patch": "replace", "runAsUser": 1}}}),
    ("Pod", {}, {"spec": {"$retainKeys": ["hostname"], "hostname": "h"}}),
    # Items without their key, of other types, null.
    ("Pod", _containers(_MAIN), _containers({"image": "b:1"})),
    ("Pod", {"spec": {"containers": [{"image": "b:1"}]}}, _containers(_MAIN)),
    ("Pod", _containers(_MAIN), {"spec": {"containers": ["text"]}}),
    ("Pod", _containers(_MAIN), {"spec": {"containers": [None]}}),
    ("Pod", _containers(_MAIN), {"spec": {"containers": []}}),
    ("Pod", {"spec": {"containers": []}}, {"spec": {"containers": []}}),
    ("Pod", {"spec": {"containers": []}}, _containers(_MAIN)),
    # Directives.
    ("Pod", _containers(_MAIN, {"name": "b"}), _containers({"name": "b", "$patch": "delete"})),
    ("Pod", _containers(_MAIN), _containers({"name": "nobody", "$patch": "delete"})),
    ("Pod", _containers(_MAIN), _containers({"$patch": "delete"})),
    ("Pod", _containers(_MAIN), _containers({"$patch": "replace"}, {"name": "only"})),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "$patch": "merge"})),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "$patch": "explode"})),
    ("Pod", _containers(_MAIN), {"$patch": "replace", "metadata": {"name": "p"}}),
    ("Pod", _containers(_MAIN), {"$patch": "delete"}),
    ("Pod", _containers(_MAIN), {"$patch": "merge", "spec": {}}),
    ("Pod", _containers(_MAIN), {"spec": {"$patch": "replace", "hostNetwork": True}}),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "$retainKeys": ["name", "image"], "image": "b:1"})),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "$retainKeys": ["name"], "image": "b:1"})),
    ("Pod", _containers(_MAIN), _containers({"name": "main", "$retainKeys": "name"})),
    ("Pod", _containers(_MAIN), _containers({"name": "new", "$retainKeys": ["name"], "image": None})),
    # One of several: both, unless retained.
    ("Pod", {"spec": {"volumes": [_VOLUME]}}, {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    (
        "Pod",
        {"spec": {"volumes": [_VOLUME]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}},
    ),
    # Order.
    ("Pod", _containers({"name": "a"}, {"name": "b"}), _containers({"name": "z"})),
    ("Pod", _containers({"name": "a"}, {"name": "b"}, {"name": "c"}), _containers({"name": "c"}, {"name": "z"})),
    ("Pod", _containers({"name": "a"}, {"name": "b"}, {"name": "c"}), _containers({"name": "c"}, {"name": "a"})),
    (
        "Pod",
        _containers({"name": "a"}, {"name": "b"}),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
    ),
    (
        "Pod",
        _containers({"name": "a"}, {"name": "b"}),
        _containers({"name": "z"}, **{"$setElementOrder/containers": [{"name": "a"}, {"name": "z"}, {"name": "b"}]}),
    ),
    (
        "Pod",
        _containers({"name": "a"}),
        _containers({"name": "y"}, {"name": "x"}, **{"$setElementOrder/containers": [{"name": "x"}, {"name": "y"}]}),
    ),
    ("Pod", _containers({"name": "a"}), _containers({"name": "z"}, **{"$setElementOrder/containers": [{"name": "a"}]})),
    ("Pod", {"spec": {}}, _containers({"name": "z"}, **{"$setElementOrder/containers": [{"name": "z"}]})),
    ("Pod", {"spec": {}}, {"spec": {"$setElementOrder/containers": [{"name": "z"}]}}),
    ("Pod", _containers({"name": "a"}), {"spec": {"$setElementOrder/containers": "a"}}),
    ("Pod", _containers({"name": "a"}), {"spec": {"$setElementOrder/containers": [{"image": "a"}]}}),
    ("Pod", _containers({"name": "a"}), _containers({"name": "z"}, **{"$setElementOrder/containers": []})),
    # Sets of plain values, ports and constraints whose key is not unique.
    ("Pod", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"finalizers": ["b", "c"]}}),
    ("Pod", {"metadata": {"finalizers": ["a", "b"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
    ("Pod", {"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
    ("Pod", {"metadata": {"finalizers": ["a"]}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": None}}),
    ("Pod", {"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [1]}}),
    (
        "Pod",
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"$setElementOrder/finalizers": ["c", "d", "a"], "finalizers": ["d"]}},
    ),
    ("Pod", _containers({**_MAIN, "args": ["1", "2"]}), _containers({"name": "main", "args": ["3"]})),
    (
        "Pod",
        _containers({**_MAIN, "args": ["1", "2"]}),
        _containers({"name": "main", "$deleteFromPrimitiveList/args": ["1"]}),
    ),
    (
        "Pod",
        _containers({"name": "m", "ports": [{"containerPort": 53, "protocol": "TCP"}]}),
        _containers({"name": "m", "ports": [{"containerPort": 53, "protocol": "UDP"}]}),
    ),
    (
        "Pod",
        {"spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1}]}},
        {"spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2}, {"topologyKey": "host"}]}},
    ),
    ("Pod", {"spec": {"tolerations": [{"key": "a"}]}}, {"spec": {"tolerations": [{"key": "b"}]}}),
    (
        "Pod",
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}},
        {"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "controller": True}]}},
    ),
    ("Pod", {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"b": "2", "a": None}}}),
    ("Pod", {"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}}),
    ("Service", {"spec": {"ports": [{"port": 1}, {"port": 2}]}}, {"spec": {"ports": [{"port": 2, "name": "x"}]}}),
    ("Service", {"spec": {"ports": [{"port": 1}]}}, {"spec": {"ports": [{"port": 1, "$patch": "delete"}]}}),
    ("Node", {"spec": {"podCIDRs": ["a", "b"]}}, {"spec": {"podCIDRs": ["c", "a"]}}),
)

_NAMES = ("a", "b", "c", "main")


class _Pods:
    """Pods and patches of them, of few names, so that they meet."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def base(self) -> Json:
        return self._pod(patch=False)

    def patch(self) -> Json:
        return self._pod(patch=True)

    def _pod(self, *, patch: bool) -> Json:
        spec: Json = {}
        self._maybe_list(spec, "containers", "name", _NAMES, self._container, patch)
        self._maybe_list(spec, "initContainers", "name", _NAMES[:2], self._container, patch)
        self._maybe_list(spec, "volumes", "name", _NAMES[:3], self._volume, patch)
        self._maybe_list(spec, "hostAliases", "ip", ("1", "2"), lambda _: {"hostnames": [self._name()]}, patch)
        self._maybe_list(spec, "tolerations", "key", _NAMES, lambda _: {"operator": "Exists"}, patch=False)
        self._maybe_list(spec, "imagePullSecrets", "name", _NAMES, lambda _: {}, patch)
        for name, values in (("hostNetwork", (True, False)), ("priority", (0, 7)), ("nodeName", ("", "n"))):
            self._maybe(spec, name, (*values, None) if patch else values)
        metadata: Json = {}
        self._maybe(metadata, "labels", ({"a": "1"}, {"a": "2", "b": "3"}, *([{"a": None}] if patch else [])))
        self._finalizers(metadata, patch)
        pod = {"metadata": metadata, "spec": spec}
        return pod if self._chance(0.95) else {"spec": spec}

    def _container(self, patch: bool) -> Json:
        container: Json = {}
        self._maybe(container, "image", ("i:1", "i:2", *([None] if patch else [])))
        self._maybe(container, "args", (["1"], ["2", "3"], []))
        self._maybe_list(container, "env", "name", _NAMES[:3], self._variable, patch)
        self._maybe_list(container, "ports", "containerPort", (80, 81), self._port, patch)
        self._maybe_list(container, "volumeMounts", "mountPath", ("/a", "/b"), lambda _: {"name": self._name()}, patch)
        self._maybe(container, "resources", ({"limits": {"cpu": "1"}}, {"limits": {"memory": "1Gi"}, "requests": {}}))
        return container

    def _variable(self, _: bool) -> Json:
        return self._random.choice([{"value": self._name()}, {"valueFrom": {"fieldRef": {"fieldPath": "x"}}}, {}])

    def _port(self, _: bool) -> Json:
        return self._random.choice([{"protocol": "TCP"}, {"protocol": "UDP"}, {"name": "p"}])

    def _volume(self, patch: bool) -> Json:
        source = self._random.choice(["emptyDir", "configMap"])
        volume: Json = {source: {"name": "c"} if source == "configMap" else {}}
        if patch and self._chance(0.3):
            volume["$retainKeys"] = ["name", source] if self._chance(0.9) else ["name"]
        return volume

    def _finalizers(self, metadata: Json, patch: bool) -> None:
        values = self._random.sample(_NAMES, self._random.randint(0, 3))
        if patch and self._chance(0.3):
            metadata["$deleteFromPrimitiveList/finalizers"] = values
            return
        if self._chance(0.4):
            metadata["finalizers"] = values
        if patch and values and self._chance(0.2):
            metadata["$setElementOrder/finalizers"] = self._random.sample(_NAMES, 3)

    def _maybe_list(self, into: Json, field: str, key: str, keys: Any, make: Any, patch: bool) -> None:
        if not self._chance(0.4):
            return
        items = [
            {key: value, **make(patch)}
            for value in self._random.sample(keys, self._random.randint(not patch, len(keys)))
        ]
        if patch:
            items = [self._item(item, key) for item in items]
            if self._chance(0.05):
                items.insert(0, {"$patch": "replace"})
            if self._chance(0.2):
                order = self._random.sample(keys, self._random.randint(1, len(keys)))
                if self._chance(0.7):
                    order = [item[key] for item in items if item.get(key)] + [k for k in order if self._chance(0.5)]
                into[f"$setElementOrder/{field}"] = [{key: value} for value in dict.fromkeys(order)]
        into[field] = None if patch and self._chance(0.05) else items

    def _item(self, item: Json, key: str) -> Json:
        if self._chance(0.1):
            return {key: item[key], "$patch": "delete"}
        if self._chance(0.02):
            return {name: value for name, value in item.items() if name != key}
        return item

    def _maybe(self, into: Json, field: str, values: Any) -> None:
        if self._chance(0.4):
            into[field] = self._random.choice(values)

    def _name(self) -> str:
        return self._random.choice(_NAMES)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def questions() -> list[Json]:
    """Every case, without the answers."""
    cases = [{"kind": kind, "base": base, "patch": patch} for kind, base, patch in PICKED]
    pods = _Pods(Random(20190829))
    return cases + [{"kind": "Pod", "base": pods.base(), "patch": pods.patch()} for _ in range(RANDOM_CASES)]


def main() -> int:
    """Ask, and write the answers; returns the exit code."""
    asked = "".join(json.dumps(case) + "\n" for case in questions())
    try:
        answers = gobuild.run("kubernetes", "./strategic", asked=asked)
    except gobuild.BuildError as error:
        print(error, file=sys.stderr)
        return 1
    VECTORS.write_text(answers)
    print(f"wrote {answers.count(chr(10))} answers, of which {answers.count(chr(34) + 'error')} are refusals")
    return 0


if __name__ == "__main__":
    sys.exit(main())
