"""The decoders of files: manifests, configuration, files of the launcher and its components, and records.

The records are of pods in the archive, of processes and control planes on this machine, and of launches.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import rmtree

import yaml

from hack.decoders.decoder import Decoder
from hack.decoders.samples import ROOT, as_json, manifests
from tfoperator.api.loading import ManifestError, parse_manifests
from tfoperator.api.validation.manifest import validate_manifest
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.launcher.component_file import load_component_file
from tfoperator.launcher.container.templates import Bindings, render_container
from tfoperator.launcher.core.component import Artifact, Component, ExecutorContainerSpec
from tfoperator.launcher.core.errors import ComponentError, TemplateError, WorkDirectoryError
from tfoperator.launcher.core.metadata import LocalMetadata
from tfoperator.launcher.core.output_document import MalformedOutput, parse_output
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.local.daemon.state_directory import StateDirectory
from tfoperator.local.runtime.process.cleanup.records import Group
from tfoperator.local.runtime.process.cleanup.records import read_record as read_process
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, encode_record, read_record
from tfoperator.operator.options.reading import read_config
from tfoperator.operator.options.settings import OptionsError
from tfoperator.pipeline.values import Value, evaluate

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
    return [*_files(folder), *_launcher(folder), *_records(folder)]


class Unreadable(Exception):
    """The file is taken for none."""


def _records(folder: Path) -> list[Decoder]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    kept = ArchivedContainer("tensorflow", exit_code=1, log="tensorflow.log", finished=at, size=3)
    pod = ArchivedPod("ns", "job", "u", "job-worker-0", "v", at, {"a": "b"}, node="n", containers=(kept,))
    identity = {"pid": 4_194_304_000, "started": "7"}
    daemon = {"process": identity, "url": "https://127.0.0.1:6443", "since": str(at), "workDirectory": "/w"}
    execution = {"id": 1, "component": "c", "state": "succeeded", "cache_key": "k", "outputs": {"o": [{"uri": "/o"}]}}
    step = Component("c", ExecutorContainerSpec(image="i"))

    def read(name: str, reader: Callable[[Path], object]) -> Callable[[bytes], None]:
        def write_and_read(data: bytes) -> None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            if reader(path) is None:
                raise Unreadable

        return write_and_read

    def begun(path: Path) -> object:
        try:
            return LocalMetadata(path.parent.parent).begin(step, "", at)
        finally:
            rmtree(path.parent)

    archived, process = lambda path: read_record(path.parent), partial(read_process, kind=Group)
    return [
        Decoder("pod.json", (encode_record(pod),), read("pod.json", archived), (Unreadable,)),
        Decoder("process record", (as_json(identity | {"container": "x"}),), read("7.json", process), (Unreadable,)),
        Decoder(
            "control plane's state",
            (as_json(daemon),),
            read("state.json", lambda path: StateDirectory(path.parent).read()),
            (Unreadable,),
        ),
        Decoder("execution", (as_json(execution),), read("known/c/1.json", begun), (WorkDirectoryError, OSError), 0.3),
    ]


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

    def member(data: bytes) -> None:
        evaluate(Value("get", (data.decode("utf-8", "replace"), "a")), lambda _: None)

    def parameter(data: bytes) -> None:
        path = folder / "component.yaml"
        path.write_bytes(b"name: c\nparameters: {n: 1}\ncontainer: {image: i}\n")
        text = data.decode("utf-8", "replace")
        load_component_file(str(path)).component({}, {}, {"n": text})

    return [
        Decoder("value of a step", (b'{"a": [1]}',), member, (ComponentError,)),
        Decoder("parameter", (b"3", b"[1]"), parameter, (ComponentError,)),
        Decoder("output.json", (as_json(output),), parse_output, (MalformedOutput,)),
        Decoder("component file", (COMPONENT,), component, (ComponentError,)),
        Decoder("templates", (template,), rendered, (TemplateError, ComponentError)),
        Decoder("launch record", (as_json(record),), recorded, (WorkDirectoryError,)),
    ]
