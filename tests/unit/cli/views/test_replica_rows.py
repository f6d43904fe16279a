from datetime import UTC, datetime

import pytest

from tfoperator.cli.views.replica_rows import cpu_text, memory_text, usage_by_pod, usage_cells, usage_header
from tfoperator.local.gpus.manager import GpuUse
from tfoperator.local.runtime.measurements import ContainerName
from tfoperator.local.usage import ContainerUsage, Usage
from tfoperator.sdk import PodUsage

PLAIN, BUSY = PodUsage(0.5, 1 << 30), PodUsage(12.345, 1536, 1.5, 80 << 30)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0Ki"), (1536, "2Ki"), (172 << 20, "172Mi"), (1 << 30, "1.0Gi"), (1000 << 20, "1.0Gi"), (3 << 40, "3.0Ti")],
)
def test_memory_in_three_digits(size: int, text: str) -> None:
    assert memory_text(size) == text


def test_the_containers_of_a_pod_are_added_up_and_there_are_columns_for_what_is_known_only() -> None:
    names = [ContainerName("ns", "p", name) for name in "ab"]
    containers = (ContainerUsage(names[0], "uid", 0.5, 10), ContainerUsage(names[1], "uid", 0.25, 5, GpuUse(1, 0.5, 7)))
    usage = Usage(datetime(2026, 1, 1, tzinfo=UTC), 2.0, 1.0, 1, containers)
    assert usage_by_pod(usage) == {"uid": PodUsage(0.75, 15, 0.5, 7)}
    assert [cpu_text(0.0), cpu_text(0.374), cpu_text(12.345)] == ["0.00", "0.37", "12.3"]
    assert usage_header([]) == ()
    assert usage_cells(None, ()) == ()
    header = usage_header([PLAIN])
    assert (header, usage_cells(PLAIN, header)) == (("CPU", "MEMORY"), ("0.50", "1.0Gi"))
    header = usage_header([PLAIN, BUSY])
    assert header == ("CPU", "MEMORY", "GPU", "GPU MEMORY")
    assert usage_cells(BUSY, header) == ("12.3", "2Ki", "1.50", "80Gi")
    assert usage_cells(PLAIN, header) == ("0.50", "1.0Gi", "-", "-")
    assert usage_cells(None, header) == ("-", "-", "-", "-")
