"""The wait for a TFJob's end: whose logs are forwarded when two watches tell of one thing in either order."""

from pathlib import Path
from typing import Any, cast

import msgspec

from tests.support import manifests
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tests.unit.launcher.container.test_backend import Source
from tests.unit.logs.lines.test_lines import stamp
from tfoperator.api.names import replica_labels
from tfoperator.api.v1.types import TFJOBS, ReplicaType, decode_tfjob
from tfoperator.base.clock import StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.resources import PODS
from tfoperator.launcher import LaunchContext
from tfoperator.launcher.container.backend import Launch, Mailbox
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.tfjob import TFJobWait


class _Api(FakeApi):
    """Every container has printed the name of its pod."""

    def pod_log(self, namespace: str, pod: str, container: str, **_: Any) -> Source:
        return Source([f"{stamp(1)} {pod}\n".encode()])


def test_a_replica_whose_beginning_the_watch_has_not_told_by_the_jobs_end_has_its_log_forwarded(tmp_path: Path) -> None:
    api, lines = _Api(), list[str]()
    succeeded = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "done"}
    body = manifests.tfjob("step", Worker=2) | {"status": {"conditions": [succeeded]}}
    body["metadata"]["namespace"] = "default"
    job = api.put(TFJOBS, body)
    api.mute("pods")
    context = LaunchContext(log=lines.append, tell=lambda _: None, tmp_path="/shared")
    launch = Launch("step", "r", context, StopSignal(), WorkDirectory(tmp_path), Mailbox(context.clock))
    wait = TFJobWait(launch, ApiCalls(cast(Client, api), "default", launch), "step", job["metadata"]["uid"])
    eventually(lambda: api.count("watch", "pods") == 1, what="the watch of pods is open")
    for index in range(2):
        labels = replica_labels("step", ReplicaType.WORKER, index, is_master=index == 0)
        pod = manifests.pod(f"step-worker-{index}", labels, manifests.owner_reference(job, controller=True))
        pod["metadata"]["namespace"] = "default"
        api.put(PODS, pod | {"status": manifests.pod_status("Succeeded")})
    end = wait.seen(decode_tfjob(msgspec.json.encode(job)))
    wait.finish()
    assert end.exit_code == 0
    assert sorted(lines) == ["[worker-0] step-worker-0", "[worker-1] step-worker-1"]
