"""How many looks at logs an operator makes for jobs that are silent for ever, on a real API server.

    python -m hack.bench.silent_jobs --jobs 600 --code before=/a/folder/with/other/code --code after=.

Each job has one pod, which runs and logs nothing, and a `progressDeadlineSeconds` of 1, stored before the CRD had a
least value. The API server reads logs from a kubelet, which is a small HTTPS server in this process here. The operator
has the rights of the manifests, with and without the right to read logs. Printed are requests for logs in a second, as
the API server counts them, answers 403 as the operator counts them, and the share of a core that the operator takes.
"""

from __future__ import annotations

import argparse
import http.server
import os
import re
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import yaml

from hack.chart import MANIFESTS
from hack.controlplane import ControlPlane
from hack.kubelet import bind, container_status, running
from hack.processes import answers, comes_true, end_process, free_port, spawn
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import SystemClock
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from tfoperator.kube.protocol.verbs import decode_metadata
from tfoperator.kube.views.objects import decode_nothing
from tfoperator.servers.certificates.pem import make_authority, make_certificate

Json = dict[str, Any]

USER = "system:serviceaccount:tfoperator-system:tfoperator"
_GROUPS = "system:serviceaccounts,system:serviceaccounts:tfoperator-system,system:authenticated"
_RBAC = "rbac.authorization.k8s.io"
_ROLES = Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
_ROLE_BINDINGS = Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
_OF_RBAC = {"ClusterRole": _ROLES, "ClusterRoleBinding": _ROLE_BINDINGS}
_OF_RBAC["Role"] = Resource(_RBAC, "v1", "Role", "roles")
_OF_RBAC["RoleBinding"] = Resource(_RBAC, "v1", "RoleBinding", "rolebindings")
_NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
_NODE = "paper"
_LINE = b"2026-01-01T00:00:00.000000000Z old\n"
_TEAMS = 10
_WAIT = 200.0


class _Kubelet(http.server.BaseHTTPRequestHandler):
    """Answers each request for a log with one old line."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(_LINE)))
        self.end_headers()
        self.wfile.write(_LINE)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def _kubelet(folder: Path) -> Iterator[int]:
    """Yield the port of a kubelet that knows logs alone."""
    now, day = SystemClock().now(), timedelta(days=1)
    made = make_certificate(make_authority("kubelet", now, day), ["127.0.0.1"], now, day)
    (folder / "kubelet.crt").write_bytes(made.certificate)
    (folder / "kubelet.key").write_bytes(made.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Kubelet)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _old_crd() -> Json:
    """The CRD, with the least deadline that it had before: 1."""
    made = crd()
    for version in made["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec["runPolicy"]["properties"]["progressDeadlineSeconds"]["minimum"] = 1
    return made


def _prepare(client: Client, port: int) -> None:
    client.create(CUSTOM_RESOURCE_DEFINITIONS, "", _old_crd(), decode_nothing)
    for name in ("tfoperator-system", *_teams()):
        client.create(NAMESPACES, "", {"metadata": {"name": name}}, decode_nothing)
    for document in yaml.safe_load_all((MANIFESTS / "base/rbac.yaml").read_text()):
        namespace = document["metadata"].get("namespace") or "tfoperator-system"
        for subject in document.get("subjects", ()):
            subject["namespace"] = "tfoperator-system"
        resource = _OF_RBAC[document["kind"]]
        client.create(resource, namespace if resource.namespaced else "", document, decode_nothing)
    client.create(_NODES, "", {"metadata": {"name": _NODE}}, decode_nothing)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    client.patch(_NODES, "", _NODE, {"status": status}, decode_nothing, subresource="status")
    _wait(lambda: _lists(client), "TFJobs are served")


def _let_read_logs(client: Client) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
    client.create(_ROLES, "", {"metadata": {"name": "logs"}, "rules": rules}, decode_nothing)
    binding = {
        "metadata": {"name": "logs"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "logs"},
        "subjects": [{"kind": "User", "name": USER, "apiGroup": _RBAC}],
    }
    client.create(_ROLE_BINDINGS, "", binding, decode_nothing)


def _teams() -> list[str]:
    return [f"team-{number}" for number in range(_TEAMS)]


def _lists(client: Client) -> bool:
    try:
        client.list(TFJOBS, "", decode_metadata)
    except KubeError:
        return False
    return True


def _submit(client: Client, count: int) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
    spec = {
        "runPolicy": {"progressDeadlineSeconds": 1},
        "tfReplicaSpecs": {"Worker": {"replicas": 1, "template": template}},
    }
    for number in range(count):
        body = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, "metadata": {"name": f"j{number}"}, "spec": spec}
        client.create(TFJOBS, f"team-{number % _TEAMS}", body, decode_nothing)


def _run_pods(client: Client) -> None:
    """Bind every pod to the node, and report that it runs."""
    now = SystemClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container_status(running(now))],
    }

    def run(meta: Any) -> None:
        bind(client, meta.namespace, meta.name, _NODE)
        client.patch(PODS, meta.namespace, meta.name, {"status": status}, decode_nothing, subresource="status")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [item.metadata for item in client.list(PODS, "", decode_metadata).items]))


def _log_requests(plane: ControlPlane, operator: int) -> dict[str, float]:
    """Requests for logs so far, by the code of the answer. The API server does not count those that it refuses."""
    context = ssl._create_unverified_context()
    request = urllib.request.Request(f"{plane.url}/metrics", headers={"Authorization": f"Bearer {plane.token}"})
    with urllib.request.urlopen(request, context=context, timeout=30) as answer:
        text = answer.read().decode()
    with urllib.request.urlopen(f"http://127.0.0.1:{operator}/metrics", timeout=30) as answer:
        own = answer.read().decode()
    return {
        "answered": _sum(r'^apiserver_request_total\{[^}]*subresource="log"[^}]*\} (\S+)$', text),
        "refused": _sum(r'^rest_client_requests_total\{[^}]*code="403"[^}]*\} (\S+)$', own),
    }


def _sum(pattern: str, text: str) -> float:
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))


@contextmanager
def _operator(plane: ControlPlane, code: Path, log: Path) -> Iterator[tuple[psutil.Process, int]]:
    """Yield an operator's process, and the port of its metrics."""
    kubeconfig, port = plane.kubeconfig_for(USER), free_port()
    command = [
        sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={kubeconfig}",
        f"--metrics-bind-address=127.0.0.1:{port}", f"--health-probe-bind-address=127.0.0.1:{free_port()}",
    ]  # fmt: skip
    process = spawn(command, log, cwd=code, env=os.environ | {"PYTHONPATH": "."})
    try:
        _wait(lambda: answers(f"http://127.0.0.1:{port}/metrics"), "the operator's metrics")
        yield psutil.Process(process.pid), port
    finally:
        end_process(process.pid, lambda: process.poll() is not None)


def _watch(plane: ControlPlane, operator: psutil.Process, port: int, title: str, windows: list[float]) -> None:
    for seconds in windows:
        requests, times, began = _log_requests(plane, port), operator.cpu_times(), time.monotonic()
        time.sleep(seconds)
        passed, after, now = time.monotonic() - began, operator.cpu_times(), _log_requests(plane, port)
        rates = ", ".join(f"{(now[answer] - requests[answer]) / passed:.2f}/s {answer}" for answer in now)
        cpu = (after.user + after.system - times.user - times.system) / passed
        print(f"{title}: {seconds:.0f} s: logs: {rates}; {cpu:.1%} of a core", flush=True)


def _wait(condition: Any, description: str) -> None:
    if not comes_true(condition, _WAIT):
        raise TimeoutError(f"not in time: {description}")


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--code", action="append", default=[], help="[NAME=]FOLDER of the operator's code")
    parser.add_argument("--windows", default="30,30,60,60", help="seconds, one after the other, for each operator")
    options = parser.parse_args()
    codes = {
        argument.rpartition("=")[0] or "operator": Path(argument.rpartition("=")[2]).resolve()
        for argument in options.code or ["."]
    }
    windows = [float(seconds) for seconds in options.windows.split(",")]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        plane = ControlPlane(
            folder / "plane",
            users={USER: _GROUPS},
            api_server_flags=["--kubelet-preferred-address-types=InternalIP"],
        )
        plane.start()
        try:
            with _kubelet(folder) as kubelet, Client(load_config(str(plane.kubeconfig))) as client:
                _prepare(client, kubelet)
                _submit(client, options.jobs)
                last = list(codes.values())[-1]
                with _operator(plane, last, folder / "first.log"):
                    _wait(
                        lambda: len(client.list(PODS, "", decode_metadata).items) == options.jobs, "a pod of each job"
                    )
                    _run_pods(client)
                for right in (False, True):
                    if right:
                        _let_read_logs(client)
                    for name, code in codes.items():
                        with _operator(plane, code, folder / f"{name}-{right}.log") as (operator, port):
                            title = f"{name}, {'with' if right else 'without'} the right to read logs"
                            _watch(plane, operator, port, title, windows)
        finally:
            plane.kill()


if __name__ == "__main__":
    main()
