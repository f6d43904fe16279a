"""The progress server in the operator's process: made from the options, counted in the metrics.

Nothing of it is imported unless it is asked for: an operator without it does without certificates and tokens.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfoperator.base.clock import Clock
from tfoperator.controller import ControllerInformers
from tfoperator.kube.verbs import ApiClient
from tfoperator.operator.metrics import OperatorMetrics
from tfoperator.operator.options import Options

if TYPE_CHECKING:
    from tfoperator.servers.progress import ProgressServer


def make_progress_server(
    options: Options,
    client: ApiClient,
    informers: ControllerInformers,
    *,
    fetch: Callable[[str], bytes] | None,
    on_authorities: Callable[[str], None],
    metrics: OperatorMetrics,
    is_leader: Callable[[], bool],
    clock: Clock,
) -> ProgressServer | None:
    """The server that the options ask for, if they do. Raises ListenError if its address is taken."""
    address = options.progress_bind_address
    if address is None or fetch is None:
        return None
    from tfoperator.operator.metrics.progress_metrics import ProgressMetrics
    from tfoperator.servers.progress import ProgressConfig, ProgressServer

    config = ProgressConfig(
        host=address.host,
        port=address.port,
        namespace=options.progress_namespace or os.environ.get("POD_NAMESPACE", "") or "default",
        service=options.progress_service,
        secret=options.progress_secret,
        url=options.progress_url,
        cluster_domain=options.cluster_domain,
        writes_per_second=options.progress_writes_per_second,
    )
    return ProgressServer(
        client,
        config,
        jobs=informers.jobs,
        pods=informers.pods,
        fetch=fetch,
        on_authorities=on_authorities,
        metrics=ProgressMetrics(metrics.registry, is_leader),
        queue_metrics=metrics.queues,
        clock=clock,
    )
