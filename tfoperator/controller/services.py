"""The bodies of services: one headless service per replica, so that TF_CONFIG can name it before its pod exists."""

from __future__ import annotations

from typing import Any

from tfoperator.api.names import DEFAULT_PORT_NAME, replica_labels
from tfoperator.api.v1.types import ReplicaType, TFJob
from tfoperator.controller.pods import owner_reference
from tfoperator.controller.templates import Template

__all__ = ["service_body", "service_ports"]


def service_body(job: TFJob, template: Template, replica_type: ReplicaType, index: int, *, name: str) -> dict[str, Any]:
    """The headless service of one replica; it selects the replica's pod by the labels that both carry."""
    labels = replica_labels(job.metadata.name, replica_type, index, is_master=False)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": service_ports(template)},
    }


def service_ports(template: Template) -> list[dict[str, Any]]:
    """Every port of the training container.

    A service must not list a port and protocol twice and must name its ports if it has several; a container may do
    as it likes, so doubles are dropped (`tfjob-port` stays) and the nameless are named after their number.
    """
    ports: dict[tuple[object, object], dict[str, Any]] = {}
    for port in sorted(template.ports, key=lambda p: p.get("name") != DEFAULT_PORT_NAME):
        number = port.get("containerPort")
        protocol = port.get("protocol") or "TCP"
        body = {"name": port.get("name") or f"port-{number}", "port": number}
        if protocol != "TCP":
            body["protocol"] = protocol
        ports.setdefault((number, str(protocol)), body)
    return list(ports.values())
