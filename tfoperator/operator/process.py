"""The operator as a process.

The process reads options, handles signals, opens ports, and returns an exit code. A user's mistake causes no traceback.
The exit codes are:

- 0 after SIGTERM or SIGINT, when the running syncs have finished;
- 1 if the operator can't continue (it lost the lease, or a sync did not finish in time), so that the kubelet restarts
  the operator's container;
- 2 if the options are wrong, or if there is no usable configuration of the connection to the API server;
- 128 + the signal's number after a second signal, which ends the process at once.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, disable_created_metrics

import tfoperator
from tfoperator.kube.client import Client, RateLimit, WatchPace
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.operator.logging import configure_logging
from tfoperator.operator.metrics.operator_metrics import CONTENT_TYPE, OperatorMetrics
from tfoperator.operator.operator import WATCH_BATCH_PERIOD, Operator
from tfoperator.operator.options.config_watcher import ConfigWatcher
from tfoperator.operator.options.reading import parse_options
from tfoperator.operator.options.settings import Options, OptionsError
from tfoperator.operator.refusals import Refusals
from tfoperator.operator.signal_queue import next_item
from tfoperator.operator.wiring import Reach
from tfoperator.operator.witnesses.log_looks import newest_line_from
from tfoperator.servers.endpoints.endpoint import Endpoint
from tfoperator.servers.http.limits import Address, ListenError
from tfoperator.servers.http.messages import Answer

if TYPE_CHECKING:
    from tfoperator.servers.webhook.webhook import ConversionWebhook

logger = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
ACCESS_REVIEW_SECONDS = 5.0
"""The `request_timeout` of the client that sends access reviews: the maximum number of seconds without a byte. An
access review is a request that checks whether a client may read metrics.
"""


class _Signals:
    """In its `with` block, the first SIGTERM or SIGINT puts "" into the queue `stop_reasons`.

    "" means that the operator stops without a failure. A second signal ends the process at once.
    """

    def __init__(self, stop_reasons: queue.SimpleQueue[str]) -> None:
        self._stop_reasons = stop_reasons
        self._seen = False

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._handle) for number in (signal.SIGTERM, signal.SIGINT)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self._seen:
            os._exit(128 + number)
        self._seen = True
        self._stop_reasons.put("")


def run(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the operator until SIGTERM, SIGINT or a failure; return the exit code. Call it only in the main thread."""
    try:
        options = parse_options(arguments, environ)
    except OptionsError as error:
        return _complain(f"{error}\nSee tfoperator operator --help.")
    except SystemExit as done:  # --help, --version
        return done.code if isinstance(done.code, int) else EXIT_OK
    configure_logging(options.log_format, options.log_level)
    # The creation time of each counter would double the number of samples, and the rules and dashboards don't read it.
    disable_created_metrics()  # type: ignore[no-untyped-call] # prometheus_client leaves it unannotated
    stop_reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
    with _Signals(stop_reasons), ExitStack() as cleanup:
        try:
            client, operator, webhook = _assemble(options, environ, cleanup, stop_reasons.put)
        except (KubeError, OSError, OptionsError) as error:
            return _complain(str(error))
        logger.info("tfoperator %s is starting as %s", tfoperator.__version__, operator.identity)
        operator.start()
        failure = next_item(stop_reasons)
        if failure:
            # Another replica may lead by now: further writes of a running sync must not reach the API server.
            client.close()
        if webhook is not None:
            webhook.drain()
        if not failure:
            logger.info("stopping: waiting up to %.0f s for running syncs", options.shutdown_grace_period)
        stopped = operator.stop()
        if not stopped:
            # As above: a sync that still runs must not write any more. This comes before the cleanup, because the
            # webhook's stop may take some time.
            client.close()
    if failure:
        return EXIT_FAILED
    logger.info("stopped" if stopped else "stopped, although some work had not finished in time")
    return EXIT_OK if stopped else EXIT_FAILED


def _complain(message: str) -> int:
    sys.stderr.write(f"tfoperator operator: {message}\n")
    return EXIT_USAGE


def _assemble(
    options: Options, environ: Mapping[str, str], cleanup: ExitStack, on_failure: Callable[[str], None]
) -> tuple[Client, Operator, ConversionWebhook | None]:
    """Make the client, the operator and the webhook, and start the servers. `cleanup` stops the servers.

    The webhook is None if the options do not enable it. Raises KubeError, OptionsError or OSError (if a port can't be
    opened).
    """
    config = load_config(options.kubeconfig or None, options.context or None, environ=environ)
    config.check()
    metrics = OperatorMetrics()
    agent = f"tfoperator/{tfoperator.__version__}"
    refusals = Refusals(metrics.client)
    connect = partial(Client, config, observer=refusals)
    limited = partial(connect, limit=RateLimit(options.kube_api_qps, options.kube_api_burst))
    watches = WatchPace(batch_period=WATCH_BATCH_PERIOD)
    client = cleanup.enter_context(limited(user_agent=agent, watches=watches, parallelism=options.create_parallelism))
    namespace = environ.get("POD_NAMESPACE", "") or config.namespace
    webhook: ConversionWebhook | None = None
    if options.webhook_bind_address is not None:
        webhook = _make_webhook(options, options.webhook_bind_address, client, metrics.registry, namespace)
        cleanup.callback(webhook.stop)
    lease_client: Client | None = None
    if options.leader_elect:
        lease_client = cleanup.enter_context(
            connect(user_agent=f"{agent} leader-election", request_timeout=options.leader_elect_renew_deadline / 2)
        )
        options = msgspec.structs.replace(options, leader_elect_namespace=options.leader_elect_namespace or namespace)
    options = msgspec.structs.replace(options, progress_namespace=options.progress_namespace or namespace)
    log_client: Client | None = None
    if options.archive_dir:
        # A separate client has its own rate limit. So the logs of a thousand pods that end don't delay the syncs.
        log_client = cleanup.enter_context(limited(user_agent=f"{agent} log-archive"))
    try:
        operator = Operator(
            client,
            options,
            reach=Reach(
                lease_client=lease_client,
                log_source=log_client,
                newest_line=newest_line_from(log_client or client),
                fetch=partial(client.get_raw, accept="*/*"),
                checks_crd=True,
            ),
            metrics=metrics,
            on_failure=on_failure,
        )
    except ListenError:
        raise
    except OSError as error:
        raise OptionsError(f"--archive-dir {options.archive_dir}: {error.strerror or error}") from None
    reviewer: Client | None = None
    if options.metrics_secure and options.metrics_bind_address is not None:
        # A separate client, so that syncs don't wait for its requests. Its time-out is short, because a scrape waits.
        reviewer = cleanup.enter_context(
            connect(user_agent=f"{agent} access-review", request_timeout=ACCESS_REVIEW_SECONDS)
        )
    _serve(options, operator, refusals, cleanup, webhook, reviewer)
    if webhook is not None:
        webhook.start()
    if options.config:
        watcher = ConfigWatcher(options, operator.reload)
        cleanup.callback(watcher.stop)
        watcher.start()
    return client, operator, webhook


def _make_webhook(
    options: Options, address: Address, client: ApiClient, registry: CollectorRegistry, namespace: str
) -> ConversionWebhook:
    """Return the webhook for these options. `namespace`, the operator's own namespace, is the default of its namespace.

    Raises ListenError if `address` is in use.
    """
    # Imported late: an operator without the webhook does not need these modules.
    from tfoperator.servers.webhook.metrics import WebhookMetrics
    from tfoperator.servers.webhook.webhook import ConversionWebhook, WebhookConfig

    config = WebhookConfig(
        host=address.host,
        port=address.port,
        namespace=options.webhook_namespace or namespace,
        service=options.webhook_service,
        secret=options.webhook_secret,
        url=options.webhook_url,
        cert_dir=options.webhook_cert_dir,
        validity=timedelta(seconds=options.webhook_certificate_validity),
        shutdown_delay=options.webhook_shutdown_delay,
    )
    return ConversionWebhook(client, config, metrics=WebhookMetrics(registry))


def _serve(
    options: Options,
    operator: Operator,
    refusals: Refusals,
    cleanup: ExitStack,
    webhook: ConversionWebhook | None = None,
    reviewer: Client | None = None,
) -> None:
    def healthy() -> Answer:
        return Answer(b"ok\n") if not operator.failure else _unavailable(operator.failure)

    def ready() -> Answer:
        if not operator.is_ready:
            return _unavailable(operator.failure or refusals.problem or "the caches are not complete")
        if refusals.problem:
            return _unavailable(refusals.problem)
        if webhook is not None and not webhook.is_ready:
            return _unavailable("the webhook has no certificate yet")
        if not operator.takes_reports:
            return _unavailable("the progress server has no certificate yet")
        return Answer(b"ok\n")

    def metrics() -> Answer:
        return Answer(operator.metrics.render(), content_type=CONTENT_TYPE)

    health, scraped = options.health_probe_bind_address, options.metrics_bind_address
    probes = {"/healthz": healthy, "/readyz": ready}
    if health is not None and health == scraped and health.port != 0:
        _start(Endpoint(health, {**probes, "/metrics": metrics}, name="endpoints"), cleanup)
        return
    if health is not None:
        _start(Endpoint(health, probes, name="health"), cleanup)
    if scraped is not None and reviewer is not None:
        from tfoperator.servers.endpoints.secure_metrics import SecureEndpoint  # with it come certificates

        pages = {"/metrics": metrics}
        _start(SecureEndpoint(scraped, pages, reviewer, name="metrics", cert_dir=options.metrics_cert_dir), cleanup)
    elif scraped is not None:
        _start(Endpoint(scraped, {"/metrics": metrics}, name="metrics"), cleanup)


def _start(endpoint: Endpoint, cleanup: ExitStack) -> None:
    cleanup.callback(endpoint.stop)
    endpoint.start()


def _unavailable(reason: str) -> Answer:
    return Answer(f"{reason}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE)
