"""Samples of the CPU, memory and other resources that pods use.

From the time at which the first page is opened, the page's server reads the samples from the metrics API
(metrics.k8s.io) every 10 s. It keeps the samples of an hour. CPU is in cores, and memory is in bytes. Values of other
resources, such as accelerators, are unchanged values from the metrics API.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
from cachetools import LRUCache

from tfoperator.base.clock import Repetition, SystemClock
from tfoperator.kube import ForbiddenError, KubeError, ListWatch, NotFoundError, list_all
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.sdk.usage import POD_METRICS, PodMetrics, decode_pod_metrics

logger = logging.getLogger(__name__)

PERIOD = 10.0
"""The seconds between two requests to the metrics API. metrics-server measures the usage every 15 s."""
ABSENT_PERIOD = 60.0
"""The seconds until the next request if the metrics API does not exist or refuses the request."""
SAMPLES = 360
"""The server keeps at most this many samples of each pod: the samples of an hour."""
MAX_PODS = 5000
"""The server keeps the samples of at most this many pods. The samples of 5,000 pods with two resources need 60 MB."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """The resources that a pod used at a time, by the name of the resource. `time` is in seconds since 1970."""

    time: float
    used: dict[str, float]


class UsageSamples(Repetition):
    """Reads and keeps the latest samples of each pod. Thread-safe.

    `start()` and `stop()` may be called several times. After the first call of `stop()`, `start()` has no effect.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        namespaces: Sequence[str] = ("",),
        on_round: Callable[[], object] = lambda: None,
    ) -> None:
        """After each request to the metrics API, the thread that sends the requests calls `on_round`."""
        self._client = client
        self._on_round = on_round
        self._namespaces = namespaces
        super().__init__(self._ask, seconds=PERIOD, clock=SystemClock(), name="ui-usage")
        self.problem = ""
        """A text for users: the reason why there are no new samples. It is "" if the last request succeeded."""
        self.rounds = 0
        """The number of requests to the metrics API so far. After each increase of this number, there may be new
        samples.
        """
        self._samples_lock = threading.Lock()  # guards the samples
        self._samples: LRUCache[str, deque[Sample]] = LRUCache(MAX_PODS)  # by namespace/name

    def samples(self, namespace: str, pod: str, since: float = 0.0) -> list[Sample]:
        """Return the samples of a pod after a given time, the oldest first."""
        with self._samples_lock:
            return [sample for sample in self._samples.get(f"{namespace}/{pod}", ()) if sample.time > since]

    def latest(self, namespace: str, pod: str) -> dict[str, float]:
        """Return the resources in a pod's last sample, or {} if there is no sample."""
        with self._samples_lock:
            samples = self._samples.get(f"{namespace}/{pod}")
            return samples[-1].used if samples else {}

    def _ask(self) -> float:
        """Request new samples from the metrics API. Return the seconds until the next request."""
        problem = ""
        try:
            for namespace in self._namespaces:
                self._add(list_all(ListWatch(self._client, POD_METRICS, namespace, decode_pod_metrics)).items)
        except NotFoundError:
            problem = "The cluster has no metrics API: install metrics-server in the cluster."
        except ForbiddenError:
            problem = "You have no permission to read the metrics API (list pods.metrics.k8s.io)."
        except KubeError as error:
            problem = f"The metrics API can't be read: {error}"
            logger.debug("usage: %s", error)
        self.problem = problem
        self.rounds += 1
        self._on_round()
        return ABSENT_PERIOD if problem else PERIOD

    def _add(self, pods: Sequence[PodMetrics]) -> None:
        now = self._clock.now().timestamp()
        with self._samples_lock:
            for pod in pods:
                at = pod.timestamp.timestamp() if pod.timestamp is not None else now
                samples = self._samples.setdefault(pod.metadata.key, deque(maxlen=SAMPLES))
                if not samples or samples[-1].time < at:
                    samples.append(Sample(at, pod.used()))
