"""A node for one namespace of either API server: pods are processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.contract.conftest import ApiServer
from tests.contract.support import Space, decode
from tests.support.fake_kubelet import FakeKubelet
from tfoperator.kube import Client
from tfoperator.kube.protocol.resources import Resource
from tfoperator.local.node.agent import NodeAgent
from tfoperator.local.node.node_api import NODES
from tfoperator.local.runtime.process.runtime import ProcessRuntime

NODE = "node-of-processes"


class OneNamespace:
    """A client whose watches of everything see one namespace only: the others' pods are not this agent's."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def list_watch(self, resource: Resource, namespace: str, decode: Any, *selection: Any) -> Any:
        return self._client.list_watch(resource, namespace or self._namespace, decode, *selection)


class Node:
    """A node agent for one namespace, whose logs the API server can read."""

    def __init__(self, server: ApiServer, space: Space, folder: Path) -> None:
        self._server = server
        self._client = space.client
        runtime = ProcessRuntime(records=folder / "records", work_dir=folder)
        client: Any = OneNamespace(space.client, space.namespace)
        self._agent = NodeAgent(client, run_dir=folder, runtime=runtime, node_name=NODE)
        self._kubelet = FakeKubelet(self._agent.logs.read)

    def __enter__(self) -> Node:
        self._kubelet.__enter__()
        self._agent.start()
        if self._server.node_logs is not None:
            self._server.node_logs.reader = self._agent.logs.read
        else:
            patch = {"status": self._kubelet.node_status}
            self._client.patch(NODES, "", NODE, patch, decode, subresource="status")
        return self

    def __exit__(self, *details: object) -> None:
        self._agent.stop(grace=0.0)
        self._kubelet.__exit__(*details)
        self._client.delete(NODES, "", NODE)
