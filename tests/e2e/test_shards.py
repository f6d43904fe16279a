"""Two operators with a shard each, as processes, on an embedded API server: they share the namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, decode, tfjob
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.operator_process import OperatorProcess
from tests.support.served import Served, served
from tfoperator.kube.resources import LEASES, PODS
from tfoperator.operator.shards import shard_of

__all__ = ["served"]

FLAGS = (
    "--leader-elect", "--leader-elect-namespace=default", "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms",
)  # fmt: skip


@pytest.fixture
def shards(served: Served, tmp_path: Path) -> Iterator[list[OperatorProcess]]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", served.server.kubeconfig(), "default")
    with ExitStack() as stack:
        yield [
            stack.enter_context(OperatorProcess(kubeconfig, tmp_path, f"shard-{n}", *FLAGS, f"--shard={n}/2"))
            for n in range(2)
        ]


def test_each_job_is_served_by_the_shard_of_its_namespace_alone(served: Served, shards: list[OperatorProcess]) -> None:
    clusters = [Cluster(served.api, f"shared-{number}") for number in range(6)]
    assert {shard_of(cluster.namespace, 2) for cluster in clusters} == {0, 1}
    for cluster in clusters:
        cluster.create_namespace()
        cluster.submit(tfjob("job", Worker=2))
    for number, shard in enumerate(shards):
        shard.wait_ready()
        leader = f'tfoperator_leader{{shard="{number}/2"}}'
        eventually(lambda one=shard, name=leader: one.metrics().get(name) == 1, within=15, what=f"shard {number} leads")

    def made() -> bool:
        counts = [len(served.api.list(PODS, one.namespace, decode).items) for one in clusters]
        return counts == [2] * len(clusters)

    eventually(made, within=15, what="two pods for each job")
    for number, shard in enumerate(shards):
        mine = [one for one in clusters if shard_of(one.namespace, 2) == number]
        metrics = shard.metrics()
        assert metrics["training_operator_created_pods_total"] == 2 * len(mine)
        assert metrics['tfoperator_informer_objects{informer="tfjobs"}'] == len(mine)
    names = {lease["metadata"]["name"] for lease in served.api.list(LEASES, "default", decode).items}
    assert {"tfoperator", "tfoperator-0-of-2", "tfoperator-1-of-2"} <= names
    assert [shard.stop() for shard in shards] == [0, 0]
