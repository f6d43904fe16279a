"""What is read from files: manifests, configuration, and what the launcher and its components write."""

from __future__ import annotations

from pathlib import Path

import yaml

from hack.decoders.decoder import Decoder
from hack.decoders.samples import ROOT, as_json, manifests
from tfoperator.api.loading import ManifestError, parse_manifests
from tfoperator.api.validation import validate_manifest
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.errors import KubeError
from tfoperator.launcher.component_file import load_component_file
from tfoperator.launcher.container import Bindings, render_container
from tfoperator.launcher.core import (
    Artifact,
    ComponentError,
    ExecutorContainerSpec,
    MalformedOutput,
    TemplateError,
    WorkDirectory,
    WorkDirectoryError,
    parse_output,
)
from tfoperator.operator.options import OptionsError, read_config

COMPONENT = b"""
name: count
inputs: {text: null, extra: /default}
outputs: [counts]
parameters: &p {lines: 10, ratio: 0.5, label: none}
container: {image: i, command: [wc], args: ["{{ inputs.text.uri }}"]}
platforms:
  docker: {mem_limit: 1g, environment: *p}
  kubernetes: {metadata: {labels: {a: b}}, spec: {hostNetwork: false}}
  tfjob: {replicas: {Worker: 2}, spec: {runPolicy: {backoffLimit: 1}}, pod: {spec: {priority: 0}}}
"""


def file_decoders(folder: Path) -> list[Decoder]:
    """They write what they read into `folder`."""
    return [*_files(folder), *_launcher(folder)]


def _kubeconfig() -> bytes:
    cluster = {"server": "https://k8s.test:6443", "insecure-skip-tls-verify": True, "tls-server-name": "x"}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "none", "interactiveMode": "Never"}
    users = [
        {"name": "u", "user": {"token": "t"}},
        {"name": "v", "user": {"exec": plugin, "as": "me", "as-groups": ["a", "b"]}},
    ]
    contexts = [{"name": name, "context": {"cluster": "c", "user": name, "namespace": "n"}} for name in ("u", "v")]
    return yaml.safe_dump(
        {
            "apiVersion": "v1", "kind": "Config", "current-context": "u", "users": users,
            "contexts": contexts, "clusters": [{"name": "c", "cluster": cluster}],
        }
    ).encode()  # fmt: skip


def _files(folder: Path) -> list[Decoder]:
    def loaded(data: bytes) -> None:
        for manifest in parse_manifests(data):
            validate_manifest(manifest.obj)

    def kubeconfig(data: bytes) -> None:
        path = folder / "kubeconfig"
        path.write_bytes(data)
        read_kubeconfig([path])

    def options(data: bytes) -> None:
        path = folder / "operator.yaml"
        path.write_bytes(data)
        read_config(str(path))

    config = (ROOT / "examples/accelerators/operator.yaml").read_bytes()
    config += b'scheduling: {priorityClasses: {default: ["*"], namespaces: {research: [high]}}, queues: {default: []}}'
    return [
        Decoder("manifests", manifests(), loaded, (ManifestError,)),
        Decoder("kubeconfig", (_kubeconfig(), _kubeconfig().replace(b"current-context: u", b"current-context: v")),
                kubeconfig, (KubeError,)),
        Decoder("operator config", (config, b"resync-period: 15s\nleaderElect: true\nnamespace: [a, b]\n"),
                options, (OptionsError,)),
    ]  # fmt: skip


def _launcher(folder: Path) -> list[Decoder]:
    output = {
        "error_status": {"code": "RETRYABLE_ERROR", "message": "no"},
        "outputs": {"model": {"uri": "/x", "properties": {"a": 1}}, "all": [{"uri": "/y"}]},
        "exec_properties": {"steps": 3},
    }
    record = {"component": "c", "fingerprint": "f", "execution_id": 1, "run": "r"}
    template = b"{{ inputs.data.uri }} --out={{outputs.model.uri}} --n {{exec_properties.n}} {{ exec_props.t }}"
    bindings = Bindings(
        inputs={"data": (Artifact(uri="/in"),)}, outputs={"model": (Artifact(uri="/out"),)},
        exec_properties={"n": 1, "t": "x"},
    )  # fmt: skip

    def rendered(data: bytes) -> None:
        text = data.decode("utf-8", "surrogateescape")
        render_container("c", ExecutorContainerSpec(image=text, args=(text,)), bindings)

    def component(data: bytes) -> None:
        path = folder / "component.yaml"
        path.write_bytes(data)
        load_component_file(str(path))

    def recorded(data: bytes) -> None:
        (folder / "launch.json").write_bytes(data)
        work = WorkDirectory(folder)
        work.load()

    return [
        Decoder("output.json", (as_json(output),), parse_output, (MalformedOutput,)),
        Decoder("component file", (COMPONENT,), component, (ComponentError,)),
        Decoder("templates", (template,), rendered, (TemplateError, ComponentError)),
        Decoder("launch record", (as_json(record),), recorded, (WorkDirectoryError,)),
    ]
