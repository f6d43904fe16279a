"""The HTTPS server to which training programs report.

Only the pods of a job may report for the job. The pod's service account token proves which pod sends the report, and
the labels of the pod show its replica. So the content of a report can't name another replica. If the token is not for
the job in the path of the URL, the server refuses the report before it looks up the job. So a client can't learn from
refusals which jobs exist.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.replicas.progress_names import URL_VARIABLE, token_audience
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock
from tfoperator.informers import Lister
from tfoperator.kube.views.objects import Pod, object_key
from tfoperator.servers.certificates.tls import TlsServer
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Refusal, Request
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.reports import (
    MAX_BODY,
    InvalidReport,
    MalformedReport,
    ProgressReport,
    encode_report,
    parse_report,
)
from tfoperator.servers.progress.tokens import KeysUnavailable, PodIdentity, TokenRefused, TokenVerifier

LIMITS = Limits(
    connections=512,
    per_source=128,  # all pods of a node may have the node's address
    body=MAX_BODY,
    received=4 << 20,
    handshake_seconds=5.0,
    request_seconds=5.0,  # the time-out of clients is also 5 s
    idle_seconds=15.0,  # three report intervals of clients with keep-alive
)

_PATH = re.compile(r"/apis/kubeflow\.org/v1/namespaces/([a-z0-9.-]{1,253})/tfjobs/([a-z0-9.-]{1,253})/status", re.ASCII)

_REASONS = {
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
}
"""The `reason` in the `metav1.Status` of a refusal, for each HTTP status."""

TakeReport = Callable[[TFJob, ProgressReport], None]


class ProgressEndpoint(TlsServer):
    """Receives reports over HTTPS, as soon as it has a certificate. Call `start()` once, then `stop()`. Thread-safe.

    The endpoint passes each valid report to `take`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        verifier: TokenVerifier,
        jobs: Lister[TFJob],
        pods: Lister[Pod],
        take: TakeReport,
        clock: Clock,
        metrics: ProgressMetrics,
    ) -> None:
        """Listen on the address. With port 0, select a free port. Raises ListenError if that is impossible."""
        self._verifier = verifier
        self._jobs = jobs
        self._pods = pods
        self._take = take
        self._clock = clock
        self._metrics = metrics
        # A single thread, which fetches the keys of the API server. All requests that need the keys wait for it.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="progress-keys")
        super().__init__(host, port, name="progress", limits=LIMITS)

    def refused(self, reason: str) -> None:
        """Count a refusal in the metrics."""
        self._metrics.refused.labels(reason).inc()

    def start(self) -> None:
        """Start to respond to requests, and start to fetch the keys that verify the API server's tokens."""
        super().start()
        # In the background, before the first report needs the keys. If this fails, the first report fetches them again.
        self._pool.submit(self._verifier.refresh)

    def stop(self) -> None:
        """Stop listening, respond to the current requests, and end all threads. Idempotent."""
        super().stop()
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def respond(self, request: Request) -> Answer:
        """Pass the report to `take`, and return it as JSON. Return a `metav1.Status` with the reason for a refusal."""
        try:
            return await self._respond(request)
        except _Failure as failure:
            self._metrics.refused.labels(failure.reason).inc()
            return self.refusal(failure)

    def refusal(self, refusal: Refusal) -> Answer:
        """Return a response with a `metav1.Status`, as API servers do."""
        return Answer(
            msgspec.json.encode(
                {
                    "apiVersion": "v1",
                    "kind": "Status",
                    "status": "Failure",
                    "reason": _REASONS.get(refusal.status, "BadRequest"),
                    "message": str(refusal),
                    "code": refusal.status.value,
                }
            ),
            refusal.status,
            "application/json",
        )

    async def _respond(self, request: Request) -> Answer:
        match = _PATH.fullmatch(request.path)
        if match is None:
            raise _Failure(
                HTTPStatus.NOT_FOUND, "path", f"this path does not exist: send reports to the URL in {URL_VARIABLE}"
            )
        if request.method != "POST":
            raise _Failure(HTTPStatus.METHOD_NOT_ALLOWED, "method", "only POST is allowed here")
        namespace, name = match.groups()
        identity = await self._identify(request, namespace, name)
        job = self._jobs.find(object_key(namespace, name))
        if job is None:
            raise _Failure(HTTPStatus.NOT_FOUND, "job", f'tfjobs.kubeflow.org "{name}" not found')
        pod = self._pod_of(job, identity)
        try:
            report = parse_report(request.body, replica_name(pod), self._clock.now(), identity.uid)
        except MalformedReport as error:
            raise _Failure(HTTPStatus.UNPROCESSABLE_ENTITY, "malformed", str(error)) from None
        except InvalidReport as error:
            raise _Failure(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", str(error)) from None
        self._take(job, report)
        self._metrics.received.inc()
        return Answer(encode_report(report), content_type="application/json")

    async def _identify(self, request: Request, namespace: str, name: str) -> PodIdentity:
        """Return the pod to which the token in the header `Authorization` belongs.

        Raises _Failure if the token is missing or invalid, or if the audience of the token is another job.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            message = "a report needs the token of its pod: Authorization: Bearer TOKEN"
            raise _Failure(HTTPStatus.FORBIDDEN, "token", message)
        token, audience = token.strip(), token_audience(namespace, name)
        try:
            identity = self._verifier.known(token, audience)
            if identity is None:
                verify = self._verifier.verify
                identity = await asyncio.get_running_loop().run_in_executor(self._pool, verify, token, audience)
        except TokenRefused as error:
            raise _Failure(HTTPStatus.FORBIDDEN, "token", str(error)) from None
        except KeysUnavailable as error:
            raise _Failure(HTTPStatus.INTERNAL_SERVER_ERROR, "keys", str(error)) from None
        if identity.namespace != namespace:
            raise _Failure(HTTPStatus.FORBIDDEN, "token", "the token belongs to another namespace")
        return identity

    def _pod_of(self, job: TFJob, identity: PodIdentity) -> Pod:
        pod = self._pods.find(object_key(identity.namespace, identity.name))
        if pod is None or pod.metadata.uid != identity.uid or not pod.metadata.is_controlled_by(job.metadata.uid):
            message = "the operator has not seen the pod of this token among the pods of the job"
            raise _Failure(HTTPStatus.FORBIDDEN, "pod", message)
        return pod


class _Failure(Refusal):
    """A refusal after which the connection continues, because the request was read to its end."""
