"""Names the pods that still run after their job has succeeded, and explains how to end them. Pure.

Without a `cleanPodPolicy`, the operator lets workers and evaluators run on after the job has succeeded. Pods that never
end, such as an evaluator that waits for checkpoints, occupy their machines until someone ends them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, is_ending, replica_phase
from tfoperator.kube.views.objects import Pod

_MAX_NAMES = 5


def left_running(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that have not ended and are neither deleted nor stopped, sorted by name."""
    running = [pod for pod in pods if replica_phase(pod) not in ENDED_PHASES and not is_ending(pod)]
    return sorted(running, key=lambda pod: pod.metadata.name)


def left_running_text(pods: Sequence[Pod]) -> str:
    """Return a message with the names of these pods and the advice how to end them."""
    names = ", ".join(map(replica_name, pods[:_MAX_NAMES])) + (", ..." if len(pods) > _MAX_NAMES else "")
    count = "1 pod still runs" if len(pods) == 1 else f"{len(pods)} pods still run"
    return (
        f"{count} ({names}). The operator lets running pods finish, even if they never end. "
        "To stop all running pods, set spec.runPolicy.cleanPodPolicy to Running, or delete the job"
    )
