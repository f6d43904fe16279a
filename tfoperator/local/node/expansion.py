"""Makes a container's environment and command line from its spec, by the kubelet's rules.

`$(NAME)` stands for the value of a variable, and `$$` for a dollar sign. If no variable NAME is defined, the text
`$(NAME)` stays unchanged. Programs rely on these three rules, so the result for a pod's arguments must be exactly the
same as in a cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.kube.views.pod_spec import Container, EnvVar, FieldRef, KeyRef, ResourceRef
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.protocol import LaunchError, LocalPod
from tfoperator.local.usage import Machine


class ObjectData(msgspec.Struct, frozen=True):
    """The decoded content of a ConfigMap or Secret.

    `binary` is the `binaryData` of a ConfigMap. A volume has these keys as files, too. But as with a kubelet, no
    variable gets its value from them.
    """

    texts: Mapping[str, bytes] = {}
    binary: Mapping[str, bytes] = {}

    @property
    def files(self) -> Mapping[str, bytes]:
        """The contents of a volume's files, by the keys."""
        return {**self.texts, **self.binary}


Sources = Callable[[str, str], ObjectData | None]
"""A function with the arguments kind ("ConfigMap" or "Secret") and name. It returns the content of this object in the
pod's namespace, or None if there is no such object.
"""


Tokens = Callable[[str, int], str]
"""Requests a token of the pod's service account. The arguments are the audience and the lifetime in seconds. Raises
ContainerConfigError.
"""


NO_VALUE = 125
"""The exit code of a container with a variable that can never have a value, for example because its `fieldRef` names an
unknown field. `docker run` uses the same code for its own failures.
"""


class ContainerConfigError(Exception):
    """The container can't be started *now*: it refers to an object that does not exist (yet).

    A retry may succeed.
    """


_REFERENCE_PATTERN = re.compile(r"\$(\$|\(([^)]*)\))")
_SUBSCRIPT_PATTERN = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]$")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace each `$(NAME)` that is in `variables`, and replace `$$` by `$`. All other text stays.

    >>> expand("$(A) $$(A) $(B) $A", {"A": "1"})
    '1 $(A) $(B) $A'
    """
    if "$" not in text:
        return text
    return _REFERENCE_PATTERN.sub(lambda m: "$" if m[1] == "$" else variables.get(m[2], m[0]), text)


def expand_known(text: str, variables: Mapping[str, str]) -> str:
    """Do the same as `expand`, but raise ContainerConfigError if a variable is missing, as a kubelet does for
    `subPathExpr`.
    """
    missing = [name for _, name in _REFERENCE_PATTERN.findall(text) if name and name not in variables]
    if missing:
        raise ContainerConfigError(f"{text!r} uses the variable {missing[0]}, which the container does not have")
    return expand(text, variables)


def field_value(pod: LocalPod, reference: FieldRef, pod_ip: str = LOOPBACK) -> str:
    """Return the value of a downward-API field. Raises LaunchError if pods do not have such a field."""
    path = reference.field_path
    meta = pod.metadata
    if match := _SUBSCRIPT_PATTERN.match(path):
        return (meta.labels if match[1] == "labels" else meta.annotations).get(match[2], "")
    simple = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name or "default",
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": LOOPBACK,
        "status.hostIPs": LOOPBACK,
    }
    if path in simple:
        return simple[path]
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = meta.labels if path.endswith("labels") else meta.annotations
        return "\n".join(f"{key}={quoted(value)}" for key, value in sorted(pairs.items()))
    raise LaunchError(f"fieldRef {path!r} must name a field of the pod that the downward API supports", NO_VALUE)


_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def quoted(text: str) -> str:
    """Return the text as Go's `%q` writes it. A kubelet writes the values of labels and annotations in this form.

    >>> print(quoted('say "hi"'))
    "say \\"hi\\""
    """
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES or character.isprintable():
        return _ESCAPES.get(character, character)
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def environment(
    pod: LocalPod, container: Container, sources: Sources, pod_ip: str = LOOPBACK, machine: Machine | None = None
) -> dict[str, str]:
    """Return the variables of a container.

    First come the variables of `envFrom`, then the variables of `env`, in order. As with the kubelet, `$(NAME)` in an
    entry of `env` refers to an earlier entry of `env`, but not to an entry of `envFrom`. `machine` contains the CPUs
    and the memory that count as the limits of a container without limits. By default, these are the CPUs and the memory
    of this machine.

    Raises ContainerConfigError if a required ConfigMap, Secret or key is missing. Raises LaunchError if a variable can
    never have a value.
    """
    result: dict[str, str] = {}
    for source in container.env_from or ():
        for kind, reference in (("ConfigMap", source.config_map_ref), ("Secret", source.secret_ref)):
            if reference is None:
                continue
            data = object_data(kind, reference.name, sources, optional=reference.optional)
            result.update({source.prefix + key: _text(value) for key, value in data.texts.items()})
    defined: dict[str, str] = {}
    for variable in container.env or ():
        value = _value(pod, container, variable, defined, sources, pod_ip, machine)
        if value is not None:
            defined[variable.name] = result[variable.name] = value
    return result


def command_line(container: Container, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return command and arguments with variables expanded. The result is empty if the image's entry point must run."""
    if not container.command:
        return ()
    return tuple(expand(part, variables) for part in (*container.command, *(container.args or ())))


def image_arguments(container: Container, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the expanded arguments for the image's entry point.

    The result is empty if the container has a `command`, which replaces the entry point.
    """
    return () if container.command else tuple(expand(part, variables) for part in container.args or ())


def _value(
    pod: LocalPod,
    container: Container,
    variable: EnvVar,
    defined: Mapping[str, str],
    sources: Sources,
    pod_ip: str,
    machine: Machine | None,
) -> str | None:
    source = variable.value_from
    if source is None:
        return expand(variable.value or "", defined)
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, pod_ip)
    for kind, reference in (("ConfigMap", source.config_map_key_ref), ("Secret", source.secret_key_ref)):
        if reference is not None:
            return _key(kind, reference, sources)
    where = f"env {variable.name} of container {container.name!r}"
    if source.resource_field_ref is None:
        raise LaunchError(f"{where}: this kind of valueFrom is not supported locally", NO_VALUE)
    try:
        return resource_value(pod, container, source.resource_field_ref, machine or Machine.this())
    except ValueError as error:
        raise LaunchError(f"{where}: {error}", NO_VALUE) from None


def object_data(kind: str, name: str, sources: Sources, *, optional: bool) -> ObjectData:
    """Return the content of a ConfigMap or Secret. If it is missing, return an empty content if it is optional.

    Raises ContainerConfigError if it is missing and not optional.
    """
    data = sources(kind, name)
    if data is None and not optional:
        raise ContainerConfigError(f"{kind} {name!r} not found")
    return data or ObjectData()


def _key(kind: str, reference: KeyRef, sources: Sources) -> str | None:
    data = object_data(kind, reference.name, sources, optional=reference.optional).texts
    if reference.key in data:
        return _text(data[reference.key])
    if reference.optional:
        return None
    raise ContainerConfigError(f"{kind} {reference.name!r} has no key {reference.key!r}")


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def resource_value(pod: LocalPod, container: Container, reference: ResourceRef, machine: Machine) -> str:
    """Return the value of a `resourceFieldRef`: a limit or request, divided by the divisor and rounded up.

    If CPU or memory has no limit, use the machine's amount. A missing request is 0. Raises ValueError for a reference
    that API servers reject.
    """
    kind, _, resource = reference.resource.partition(".")
    if kind not in ("limits", "requests") or not (resource in _RESOURCES or resource.startswith("hugepages-")):
        raise ValueError(
            f"resourceFieldRef.resource is {reference.resource!r}, but must be limits.NAME or requests.NAME, with NAME "
            f"{_listed()}"
        )
    chosen = container
    if reference.container_name not in ("", container.name):
        named = [container for container in pod.spec.all_containers if container.name == reference.container_name]
        if not named:
            raise ValueError(f"resourceFieldRef: the pod has no container {reference.container_name!r}")
        chosen = named[0]
    value = _quantity(chosen, kind, resource, machine)
    divisor = _number(reference.divisor) or Fraction(1)
    if resource == "cpu":  # in units of 0.001, as the kubelet does
        return str(math.ceil(Fraction(math.ceil(value * 1000), math.ceil(divisor * 1000))))
    return str(math.ceil(Fraction(math.ceil(value), math.ceil(divisor))))


def _quantity(container: Container, kind: str, resource: str, machine: Machine) -> Fraction:
    resources = container.resources
    limits = (resources.limits if resources is not None else None) or {}
    if kind == "limits":
        whole = {"cpu": machine.cpus, "memory": machine.memory}
        return _number(limits.get(resource, whole.get(resource)))
    requests = (resources.requests if resources is not None else None) or {}
    return _number(requests.get(resource))


def _number(quantity: str | int | float | None) -> Fraction:
    """Return the quantity; 0 for None. As API servers do, accept a fraction such as 0.5."""
    return parse_quantity(str(quantity) if isinstance(quantity, float) else quantity or 0)


def _listed() -> str:
    return ", ".join((*_RESOURCES, "hugepages-*"))
