"""An embedded API server with a source of measurements: a test decides what pods use."""

from datetime import UTC, datetime

from tests.support.cluster import decode
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.gpus.manager import GpuUse
from tfoperator.local.runtime.measurements import ContainerName
from tfoperator.local.usage import ContainerUsage, Usage

TAKEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Measured:
    """`read` is the source of an `EmbeddedApiServer`. The whole machine uses 1.5 CPUs and 3 GiB."""

    def __init__(self) -> None:
        self.containers: list[ContainerUsage] = []
        self.known = True
        self.asked = 0

    def read(self) -> Usage | None:
        self.asked += 1
        return Usage(TAKEN, 2.5, 1.5, 3 << 30, tuple(self.containers)) if self.known else None

    def uses(
        self, client: Client, namespace: str, pod: str, cpu: float, memory: int, gpu: GpuUse | None = None
    ) -> None:
        """A container of an existing pod uses so much."""
        uid = client.get(PODS, namespace, pod, decode)["metadata"]["uid"]
        name = ContainerName(namespace, pod, f"c{len(self.containers)}")
        self.containers.append(ContainerUsage(name, uid, cpu, memory, gpu))
