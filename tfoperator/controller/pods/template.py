"""A pod template as plain data. It is checked only as far as this is necessary to make bodies from it.

The operator decodes templates only when it must create an object. Objects that are built from one template share its
parts, so code must never change them in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, DEFAULT_PORT, DEFAULT_PORT_NAME
from tfoperator.api.replicas.templates import template_dict


class PodTemplateError(ValueError):
    """Pods can't be made from a template. The text is `field: message`."""


def list_of_objects(value: object, path: str) -> list[dict[str, Any]]:
    """Return the value if it is a list of objects, or [] if it is None. Raises PodTemplateError for any other value."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise PodTemplateError(f"{path}: must be a list of objects")
    return value


def an_object(value: object, path: str) -> dict[str, Any]:
    """Return the value if it is an object, or {} if it is None. Raises PodTemplateError for any other value."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PodTemplateError(f"{path}: must be an object")
    return value


class Template:
    """A template for the pods of one kind, for example of a replica type. `path` is its path in the job.

    `container` is the position of the training container: the container named `tensorflow`, or else the first
    container. `ports` contains the ports of this container. If no port has the name `tfjob-port`, such a port (2222) is
    added. `port` is the number of the port `tfjob-port`. Raises PodTemplateError for a template without containers or
    of the wrong shape.
    """

    def __init__(self, path: str, raw: msgspec.Raw) -> None:
        self.path = path
        try:
            template = template_dict(raw)
        except msgspec.DecodeError as error:
            raise PodTemplateError(f"{self.path}: {error}") from None
        metadata = an_object(template.get("metadata"), f"{self.path}.metadata")
        self.labels = an_object(metadata.get("labels"), f"{self.path}.metadata.labels")
        self.annotations = an_object(metadata.get("annotations"), f"{self.path}.metadata.annotations")
        self.spec = an_object(template.get("spec"), f"{self.path}.spec")
        self.containers = self._containers()
        self.container = next(
            (i for i, container in enumerate(self.containers) if container.get("name") == DEFAULT_CONTAINER_NAME), 0
        )
        self.env = self.list_of_objects("env")
        self.args = self._arguments()
        ports = self.list_of_objects("ports")
        named = next((p for p in ports if p.get("name") == DEFAULT_PORT_NAME), None)
        if named is None:
            named = {"name": DEFAULT_PORT_NAME, "containerPort": DEFAULT_PORT}
            ports = [*ports, named]
        self.ports = ports
        self.port = named.get("containerPort")

    @property
    def restart_policy(self) -> object:
        """The template's own restart policy. The replica's policy overrides it."""
        return self.spec.get("restartPolicy")

    @property
    def has_own_host_name(self) -> bool:
        """Whether the template itself sets a host name or a subdomain for its pods."""
        return bool(self.spec.get("hostname") or self.spec.get("subdomain"))

    @property
    def scheduler_name(self) -> object:
        """The scheduler that the template itself names; empty if it names none."""
        return self.spec.get("schedulerName")

    @cached_property
    def service_ports(self) -> list[dict[str, Any]]:
        """The ports of the training container, as ports of a service.

        A service must not list the same port and protocol twice, and must name its ports if it has several. A container
        has no such rules. So duplicates are dropped (`tfjob-port` stays), and ports without a name are named after
        their number.
        """
        ports: dict[tuple[str, str], dict[str, Any]] = {}
        for port in sorted(self.ports, key=lambda p: p.get("name") != DEFAULT_PORT_NAME):
            number = port.get("containerPort")
            protocol = port.get("protocol") or "TCP"
            body = {"name": port.get("name") or f"port-{number}", "port": number}
            if protocol != "TCP":
                body["protocol"] = protocol
            # The keys are texts, because in a job that was not validated, number and protocol may be lists.
            ports.setdefault((str(number), str(protocol)), body)
        return list(ports.values())

    def list_of_objects(self, field: str) -> list[dict[str, Any]]:
        """Return a list field of the training container, such as `volumeMounts`; [] if it is unset.

        Raises PodTemplateError if the field is not a list of objects.
        """
        path = f"{self.path}.spec.containers[{self.container}].{field}"
        return list_of_objects(self.containers[self.container].get(field), path)

    def change_container(self, **members: object) -> None:
        """Replace fields of the training container. Call this before anything is made from the template."""
        self.containers = list(self.containers)
        self.containers[self.container] = self.containers[self.container] | members

    def use_containers(self, containers: list[dict[str, Any]]) -> None:
        """Replace the containers by the same number of containers in the same order.

        Call this before anything is made from the containers.
        """
        self.containers = containers
        self.env = self.list_of_objects("env")

    def set_env(self, name: str, value: str) -> None:
        """Set a variable of the training container. Call this before anything is made from the template."""
        self.env = [*(v for v in self.env if v.get("name") != name), {"name": name, "value": value}]
        self.change_container(env=self.env)

    def _containers(self) -> list[dict[str, Any]]:
        containers = self.spec.get("containers")
        if not isinstance(containers, list) or not containers:
            raise PodTemplateError(f"{self.path}.spec.containers: must have at least one container")
        for position, container in enumerate(containers):
            if not isinstance(container, dict):
                raise PodTemplateError(f"{self.path}.spec.containers[{position}]: must be an object")
        return containers

    def _arguments(self) -> list[Any]:
        value = self.containers[self.container].get("args")
        if value is not None and not isinstance(value, list):
            raise PodTemplateError(f"{self.path}.spec.containers[{self.container}].args: must be a list")
        return value or []
