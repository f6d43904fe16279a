"""What the writer remembers of jobs; what it writes is tested with the whole server."""

from __future__ import annotations

from typing import Any

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tfoperator.api.v1.status import JobUsage, TrainingProgress
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.informers import Callbacks, SharedInformerFactory
from tfoperator.servers.progress import ProgressMetrics
from tfoperator.servers.progress.writer import ProgressWriter

KEY = "ns/mnist"


class JobThatGoesWhileItIsWritten(FakeApi):
    """Deletes the job when its status is written, and answers when everybody has heard of it."""

    def __init__(self) -> None:
        super().__init__()
        self.factory = SharedInformerFactory(self)
        self.jobs = self.factory.informer(TFJOBS, decode_tfjob)
        self.writer = ProgressWriter(
            self,
            self.jobs.lister,
            lambda _: TrainingProgress(percentage=7),
            lambda _: JobUsage(phase="training", seconds={"starting": 5}),
            writes_per_second=50,
            clock=FakeClock(),
            metrics=ProgressMetrics(),
        )
        self.told = False

    def patch(self, *args: Any, **more: Any) -> Any:
        answer = super().patch(*args, **more)
        self.remove(TFJOBS, "ns", "mnist")
        eventually(lambda: self.told, what="the handler hears of the deletion")
        return answer

    def gone(self, obj: TFJob) -> None:
        self.writer.forget(obj.metadata.key)
        self.told = True


def test_of_a_job_that_goes_while_it_is_written_nothing_is_remembered() -> None:
    world = JobThatGoesWhileItIsWritten()
    metadata = {"namespace": "ns", "name": "mnist", "uid": "1"}
    world.put(TFJOBS, {"metadata": metadata, "spec": {}, "status": {"usage": {"source": "Pods"}}})
    world.jobs.add_handler(Callbacks(gone=world.gone), resync_period=0, name="progress")
    world.factory.start()
    world.factory.wait_for_sync(10.0)
    world.writer._write(KEY)
    world.factory.stop(10.0)
    assert world.told
    assert world.writer._written_at == {}
    assert world.writer._waiting_since == {}
    (written,) = [call.body["status"] for call in world.calls if call.verb == "patch"]
    assert written["usage"] == {"phase": "training", "seconds": {"starting": 5}, "source": None}
