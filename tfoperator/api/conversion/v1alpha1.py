"""Converts v1alpha1, the first released version, to v1.

There is no conversion back: people write no new v1alpha1 manifests.

| v1alpha1 | v1 | why |
|---|---|---|
| `MASTER` | `Master`, not `Chief` | TF_CONFIG then calls it `master`, the name that the program in the image expects |
| a template's `restartPolicy` | the replica's `restartPolicy`: `Never` or `ExitCode` | 1-127 were permanent errors |
| `tfPort` | a container port named `tfjob-port` | where v1 keeps the port of TF_CONFIG |
| `terminationPolicy.chief` | left out if the same replica ends the job in v1 | that is the Master, else worker 0 |
| a PS without template | a template of the default parameter server | so that the manifest shows what runs |
| `schedulerName` | `schedulerName` in the templates | |
| `tensorBoard` | `tensorBoard` | |

Fields that v1 lacks are kept in an annotation, which only people read, and the conversion makes a note for each of
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.api.conversion.preserved import V1ALPHA1_ONLY, preserve
from tfoperator.api.conversion.result import Conversion, ConversionError, Note, pod_spec
from tfoperator.api.fields.problems import member, shown
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, DEFAULT_PORT_NAME
from tfoperator.api.replicas.parameter_server import parameter_server_template
from tfoperator.api.v1.choices import ReplicaType, RestartPolicy
from tfoperator.api.v1.types import TFJOBS

DEFAULT_PS_IMAGE = "tensorflow/tensorflow:1.3.0"
"""The default of `tfImage` in v1alpha1: the image of a parameter server without a template."""

_Dict = dict[str, Any]

_TYPES = {"MASTER": ReplicaType.MASTER, "PS": ReplicaType.PS, "WORKER": ReplicaType.WORKER}


def v1alpha1_to_v1(obj: Mapping[str, Any]) -> Conversion:
    """Return a v1alpha1 job as v1.

    Raises ConversionError if a part that the conversion reads has a wrong type, or if a replica type is unknown.
    """
    return _Upgrade().convert(obj)


class _Upgrade:
    """The state of one conversion while it runs."""

    def __init__(self) -> None:
        self._notes: list[Note] = []
        self._origins: dict[str, str] = {"spec.tfReplicaSpecs": "spec.replicaSpecs"}
        self._carried: _Dict = {}  # members of v1's spec besides the replicas
        self._preserved: _Dict = {}  # members of the spec
        self._preserved_of_replicas: dict[str, _Dict] = {}  # members of replica specs, by replica type
        self._replicas: dict[ReplicaType, _Dict] = {}
        self._image = ""
        self._image_used = False
        self._scheduler = ""

    def convert(self, obj: Mapping[str, Any]) -> Conversion:
        result = {name: value for name, value in obj.items() if name != "status"}
        result |= {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind}
        spec = _Fields(obj.get("spec"), "spec")
        self._image = spec.take_text("tfImage")
        self._scheduler = spec.take_text("schedulerName")
        self._convert_replicas(spec)
        self._convert_termination_policy(spec)
        self._leave_the_rest(spec)
        if obj.get("status"):
            self._note("status", "is left out: the operator writes the status itself")
        result["spec"] = self._carried | {
            "tfReplicaSpecs": {kind.value: replica for kind, replica in self._replicas.items()}
        }
        parts = {"spec": self._preserved, "replicas": self._preserved_of_replicas}
        preserved = {name: value for name, value in parts.items() if value}
        return Conversion(preserve(result, V1ALPHA1_ONLY, preserved), tuple(self._notes), self._origins)

    def _convert_replicas(self, spec: _Fields) -> None:
        specs = spec.take("replicaSpecs")
        path = spec.path("replicaSpecs")
        if specs is not None and not isinstance(specs, list):
            raise ConversionError(path, f"must be a list, but is {_what(specs)}")
        surplus = []
        for position, item in enumerate(specs or ()):
            replica = _Fields(item, f"{path}[{position}]")
            replica_type = self._replica_type(replica, f"{path}[{position}]")
            if replica_type in self._replicas:
                surplus.append(item)
                message = f"is left out: it is another spec of {replica_type}, and v1 allows one spec for each type"
                self._lost(f"{path}[{position}]", message)
                continue
            self._origins[f"spec.tfReplicaSpecs[{replica_type}]"] = f"{path}[{position}]"
            self._replicas[replica_type] = self._convert_replica(replica, replica_type, f"{path}[{position}]")
        if surplus:
            self._preserved[spec.spelling("replicaSpecs")] = surplus

    def _replica_type(self, replica: _Fields, path: str) -> ReplicaType:
        name = replica.take_text("tfReplicaType")
        if not name:
            self._note(path, "has no tfReplicaType, so v1alpha1's default MASTER is used")
        replica_type = _TYPES.get(name.upper() or "MASTER")
        if replica_type is None:
            raise ConversionError(
                replica.path("tfReplicaType"), f"must be one of {', '.join(_TYPES)}, but is {shown(name)}"
            )
        if replica_type is ReplicaType.MASTER:
            message = (
                "MASTER becomes Master. In TF_CONFIG, this replica has the name master, but TensorFlow 2 expects the "
                "name chief: in spec.tfReplicaSpecs, rename Master to Chief"
            )
            self._note(replica.path("tfReplicaType") if name else path, message)
        return replica_type

    def _convert_replica(self, replica: _Fields, replica_type: ReplicaType, path: str) -> _Dict:
        result: _Dict = {}
        replicas = replica.take("replicas")
        if replicas is not None:
            result["replicas"] = replicas
        template = replica.take("template")
        own = replica.path("template")
        # v1alpha1's operator filled in a missing PS template, and then set `isDefaultPS: true`. That template mounts a
        # ConfigMap that only v1alpha1's operator created, so it is replaced here. In all other replicas the operator
        # set the field to false.
        is_default = replica.take("isDefaultPS") is True
        if replica_type is ReplicaType.PS and (is_default or template is None):
            self._image_used = True
            # v1alpha1's operator mounted a gRPC server's source into a stock image. A full template needs no such step.
            template = parameter_server_template(self._image or DEFAULT_PS_IMAGE)
            image = self._image or f"{DEFAULT_PS_IMAGE}, the default of v1alpha1"
            self._note(
                path,
                f"has no template, so the job gets the template of v1alpha1's parameter server, with the image {image}",
            )
        result["restartPolicy"], template = self._restart_policy(template, path, own)
        template = self._with_scheduler(template, own)
        template = self._with_port(template, replica, replica_type)
        if template is not None:
            result["template"] = template
        for name, value in replica.rest().items():
            self._lost(f"{path}.{name}", "is not a field of v1alpha1")
            self._preserved_of_replicas.setdefault(replica_type.value, {})[name] = value
        return result

    def _restart_policy(self, template: Any, path: str, own: str) -> tuple[str, Any]:
        """Return the replica's restart policy, and the template without `restartPolicy`, a field that v1 ignores there.

        `path` is the path of the replica in the v1alpha1 job, and `own` is the path of its template.
        """
        pod = pod_spec(template)
        given = pod.get("restartPolicy") if pod else None
        policy = RestartPolicy.NEVER if given == RestartPolicy.NEVER else RestartPolicy.EXIT_CODE
        because = "v1alpha1 treated exit codes 1-127 as permanent failures"
        if pod is None or not isinstance(given, str):
            self._note(path, f"gets restartPolicy {policy}: {because}")
            return policy.value, template
        if given != policy:
            self._note(f"{own}.spec.restartPolicy", f"{given} becomes the replica's {policy}: {because}")
        rest = {name: value for name, value in pod.items() if name != "restartPolicy"}
        return policy.value, {**template, "spec": rest}

    def _with_scheduler(self, template: Any, own: str) -> Any:
        pod = pod_spec(template)
        if not self._scheduler or pod is None:
            return template
        before = pod.get("schedulerName")
        if before and before != self._scheduler:
            self._lost(
                f"{own}.spec.schedulerName",
                f"{before} is replaced by the job's schedulerName, {self._scheduler}",
                preserved=False,
            )
        return {**template, "spec": {**pod, "schedulerName": self._scheduler}}

    def _with_port(self, template: Any, replica: _Fields, replica_type: ReplicaType) -> Any:
        """Return the template with `tfPort` as the container port from which v1 makes TF_CONFIG.

        If no container can get the port, the template is returned unchanged, the annotation keeps `tfPort`, and a note
        reports this.
        """
        port = replica.take("tfPort")
        if port is None:
            return template
        source = replica.path("tfPort")
        pod = pod_spec(template)
        containers = pod.get("containers") if pod else None
        if pod is None or not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers or [0]):
            self._preserved_of_replicas.setdefault(replica_type.value, {})["tfPort"] = port
            self._lost(source, "is left out: the template has no container that could listen on this port")
            return template
        position = next((i for i, c in enumerate(containers) if c.get("name") == DEFAULT_CONTAINER_NAME), 0)
        container = containers[position]
        ports = container.get("ports") or []
        changed = _named_port(ports, port) if isinstance(ports, list) else None
        if changed is None:
            self._preserved_of_replicas.setdefault(replica_type.value, {})["tfPort"] = port
            why = f"the container has a port named {DEFAULT_PORT_NAME} with another number"
            if not isinstance(ports, list):
                why = "the ports of the container are not a list"
            self._lost(source, f"is left out: {why}")
            return template
        at, ports = changed
        path = f"spec.tfReplicaSpecs[{replica_type}].template.spec.containers[{position}].ports[{at}]"
        self._origins |= {path: source, f"{path}.containerPort": source}
        filled = [*containers[:position], {**container, "ports": ports}, *containers[position + 1 :]]
        return {**template, "spec": {**pod, "containers": filled}}

    def _convert_termination_policy(self, spec: _Fields) -> None:
        policy = spec.take("terminationPolicy")
        path = spec.path("terminationPolicy")
        decides = "MASTER" if ReplicaType.MASTER in self._replicas else "WORKER"
        if policy is None:
            if decides == "WORKER":
                self._note(
                    "spec",
                    "has no MASTER: in v1, worker 0 decides when the job is over (in v1alpha1, the MASTER decided)",
                )
            return
        fields = _Fields(policy, path)
        wanted = fields.take("chief")
        chief = _Fields({} if wanted is None else wanted, fields.path("chief"))
        name, index = chief.take_text("replicaName").upper(), chief.take("replicaIndex") or 0
        others = [*map(fields.path, fields.rest()), *map(chief.path, chief.rest())]
        if (name, index) == (decides, 0) and not others:
            return
        self._preserved[spec.spelling("terminationPolicy")] = policy
        if (name, index) == (decides, 0):
            self._lost(path, f"has fields that v1 does not have: {', '.join(others)}")
            return
        which = f"{name or 'no replica'} {shown(index)}"
        v1 = "the Master" if decides == "MASTER" else "worker 0"
        self._lost(path, f"names {which} as the chief, but in v1 {v1} decides when the job is over")

    def _leave_the_rest(self, spec: _Fields) -> None:
        if self._image and not self._image_used:
            self._note(spec.path("tfImage"), "is left out: only parameter servers without a template use it")
        tensorboard = spec.take("tensorBoard")
        if tensorboard is not None:
            self._carried["tensorBoard"] = tensorboard
            self._origins["spec.tensorBoard"] = spec.path("tensorBoard")
        runtime_id = spec.take("runtimeId")
        if runtime_id is not None:
            self._preserved[spec.spelling("runtimeId")] = runtime_id
            self._lost(spec.path("runtimeId"), "is left out: in v1, pods and services are named after the job")
        for name, value in spec.rest().items():
            self._preserved[name] = value
            self._lost(f"spec.{name}", "is not a field of v1alpha1")

    def _note(self, field: str, message: str) -> None:
        self._notes.append(Note(field, message))

    def _lost(self, field: str, message: str, *, preserved: bool = True) -> None:
        where = f"; the annotation {V1ALPHA1_ONLY} keeps the value" if preserved else ""
        self._notes.append(Note(field, message + where, lost=True))


def _named_port(ports: list[Any], number: Any) -> tuple[int, list[Any]] | None:
    """Return the position of the port `tfjob-port`, and the list of ports, which includes this port.

    If there is no port with this name, an unnamed port with the number `number` gets the name. If there is no such
    port either, a port is added. `ports` stays unchanged. Return None if the port `tfjob-port` has another number.
    """
    fresh = {"name": DEFAULT_PORT_NAME, "containerPort": number}
    for position, port in enumerate(ports):
        if isinstance(port, dict) and port.get("name") == DEFAULT_PORT_NAME:
            return (position, ports) if port.get("containerPort") == number else None
    for position, port in enumerate(ports):
        if isinstance(port, dict) and port.get("containerPort") == number and not port.get("name"):
            return position, [*ports[:position], {**port, **fresh}, *ports[position + 1 :]]
    return len(ports), [*ports, fresh]


class _Fields:
    """Gives access to an object's members by name, ignoring case, as Go's decoder did: `tensorBoard` or `tensorboard`.

    Each member can be taken only once. At the end the caller reports the members that it has not taken. Raises
    ConversionError if `value` is not an object.
    """

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise ConversionError(path, f"must be an object, but is {_what(value)}")
        self._path = path
        self._rest: dict[str, Any] = dict(value)
        self._spelled: dict[str, str] = {}

    def take(self, name: str) -> Any:
        """Return a member's value, None when absent.

        If several members match, the exact spelling is used, else the first of the other spellings.
        """
        spelled = name if name in self._rest else next((n for n in self._rest if n.lower() == name.lower()), None)
        if spelled is None:
            return None
        self._spelled[name] = spelled
        return self._rest.pop(spelled)

    def take_text(self, name: str) -> str:
        """Return a string member, empty when absent. Raises ConversionError if the member is not a string."""
        value = self.take(name)
        if value is None or isinstance(value, str):
            return value or ""
        raise ConversionError(self.path(name), f"must be a string, but is {_what(value)}")

    def path(self, name: str) -> str:
        """Return the path of a member as the object spells it."""
        return member(self._path, self._spelled.get(name, name))

    def spelling(self, name: str) -> str:
        """Return a member's name as the object spells it."""
        return self._spelled.get(name, name)

    def rest(self) -> Mapping[str, Any]:
        """Return the members that have not been taken."""
        return self._rest


def _what(value: Any) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else shown(value)
