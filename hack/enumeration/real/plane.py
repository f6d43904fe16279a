"""A real control plane with an operator: this operator, or the Go operator with its validating webhook.

Both run as processes of this machine, so the webhook's address differs from the address in its manifests.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec

from hack.bench.contestants import CONTESTANTS, OURS, TUNED_PEER
from hack.bench.environment import Environment
from hack.bench.measure import AUDIT_POLICY, CONTESTANT_USER
from hack.controlplane import control_plane
from hack.enumeration.real.jobs import ManyJobs
from hack.faults.simulation.pod_groups import pod_group_crds
from hack.processes import free_port
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

Json = dict[str, Any]

GO, OPERATORS = "go", {"go": TUNED_PEER, "ours": OURS}

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMESPACE, _SERVICE, _SECRET = "kubeflow", "training-operator", "training-operator-webhook-cert"
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@contextmanager
def jobs_beside(operator: str, gang: str = "") -> Iterator[ManyJobs]:
    """A real control plane with one of OPERATORS, which makes gangs for this scheduler, if any.

    Raises ControlPlaneError, BuildError, KubeError.
    """
    contestant, port = CONTESTANTS[OPERATORS[operator]], free_port()
    more = [f"--gang-scheduler-name={gang}"] if gang else []
    # Webhooks then go to the addresses of a Service's endpoints: there are no virtual addresses here.
    routing = ("--enable-aggregator-routing=true",)
    users = {CONTESTANT_USER: "system:masters"}
    with control_plane(users=users, audit_policy=AUDIT_POLICY, api_server_flags=routing) as plane, ExitStack() as stack:
        environment = Environment(plane)
        stack.callback(environment.close)
        client = stack.enter_context(Client(load_config(str(plane.kubeconfig))))
        for crd in pod_group_crds():
            environment.create(_CRDS, crd)
        environment.install_crd(contestant.crd())
        # The garbage collector asks for new kinds twice a minute, and at its start.
        plane.stop_controller_manager()
        plane.start_controller_manager()
        if operator == GO:
            more.append(f"--webhook-server-port={port}")
        process = contestant.process(environment, tuple(more))
        assert process is not None
        stack.callback(process.stop)
        process.start()
        if operator == GO:
            _register_webhook(environment, port)
        yield ManyJobs(client)


def _register_webhook(environment: Environment, port: int) -> None:
    """Have TFJobs checked by the webhook at this port; it needs `--enable-aggregator-routing` of the API server.

    Raises RequestFailed.
    """
    service: Json = {"metadata": {"name": _SERVICE}, "spec": {"ports": [{"port": 443, "targetPort": port}]}}
    environment.create(f"/api/v1/namespaces/{_NAMESPACE}/services", service)
    endpoints: Json = {
        "metadata": {"name": _SERVICE, "labels": {"kubernetes.io/service-name": _SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [_address()]}],
        "ports": [{"name": "", "port": port}],
    }
    environment.create(f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices", endpoints)
    path = f"/api/v1/namespaces/{_NAMESPACE}/secrets/{_SECRET}"
    secret = msgspec.json.decode(environment.client.request("GET", path))
    jobs: Json = {"apiGroups": ["kubeflow.org"], "apiVersions": ["v1"], "resources": ["tfjobs"]}
    webhook = {
        "name": "validator.tfjob.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": secret["data"]["ca.crt"],
            "service": {"namespace": _NAMESPACE, "name": _SERVICE, "path": "/validate-kubeflow-org-v1-tfjob"},
        },
        "failurePolicy": "Fail",
        "rules": [{**jobs, "operations": ["CREATE", "UPDATE"]}],
        "sideEffects": "None",
    }
    environment.create(_CONFIGURATIONS, {"metadata": {"name": "tfjobs"}, "webhooks": [webhook]})


def _address() -> str:
    """Return an address of this machine, but no loopback: endpoints can't have loopbacks. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        return str(probe.getsockname()[0])
