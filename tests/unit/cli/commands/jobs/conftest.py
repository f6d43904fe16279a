"""Commands against an API server with Kueue's Workloads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Json, decode
from tests.support.kueue_objects import QueueWorld, queue_world
from tests.unit.cli.conftest import CommandResult, Run
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.v1.types import TFJOBS


class Queues(QueueWorld):
    """With commands."""

    run: Run

    def tell(self, *arguments: str, code: int | None = None) -> CommandResult:
        return self.run(*arguments, "--kubeconfig", str(self.kubeconfig), code=code)

    def submit_far(self, name: str, **spec: object) -> Json:
        """A job that MultiKueue sends to another cluster."""
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
        policy = {"managedBy": MANAGED_BY_MULTIKUEUE}
        spec = {"runPolicy": policy, "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}, **spec}
        return self.client.create(TFJOBS, self.namespace, {"metadata": {"name": name}, "spec": spec}, decode)


@pytest.fixture(scope="session")
def kueue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWorld]:
    with queue_world(tmp_path_factory.mktemp("queues")) as world:
        yield world


@pytest.fixture
def queues(kueue: QueueWorld, run: Run, tmp_path: Path) -> Queues:
    world = Queues(kueue.client, kueue.resource.version, kueue.server, tmp_path)
    world.run = run
    return world
