"""Plays the training programs of a load: each reports its progress every few seconds, over a connection of its own.

They report as the clients of the protocol do that open a connection for each report, which is the dearest way for the
server. Reports are spread evenly, so a thousand jobs that report every 5 s are 200 reports a second.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from hack.bench.environment import Environment
from hack.bench.loads import NAMESPACE, Load, job_names
from hack.bench.paths import pods_path
from tfoperator.api.replicas.progress_names import ANNOTATION_PROGRESS_CA, PROGRESS_VOLUME, URL_VARIABLE

PERIOD = 5.0
"""Seconds between two reports of one job, as its clients have it."""

_THREADS = 16
_TIMEOUT = 30.0
_TOKENS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default/token"


@dataclass
class _Program:
    job: str
    host: str
    path: str
    token: str
    context: ssl.SSLContext
    sent: int = 0  # the step that was reported last and taken
    failures: int = 0


class Reporters:
    """The programs of all jobs of a load, whose pods are there. `report` for so many seconds."""

    def __init__(self, environment: Environment, load: Load) -> None:
        """Get what each pod's kubelet would give it. Raises RequestFailed."""
        self._environment = environment
        if not any(
            account["metadata"]["name"] == "default" for account in environment.list(_TOKENS.rpartition("/default")[0])
        ):
            environment.create(_TOKENS.rpartition("/default")[0], {"metadata": {"name": "default"}})
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._programs = [self._program(f"{job}-worker-0", job) for job in job_names(load)]

    def report(self, seconds: float) -> tuple[dict[str, int], int]:
        """The step of the last report that was taken, by job, and how many reports were not."""
        began = time.monotonic()
        parts = [self._programs[number::_THREADS] for number in range(_THREADS)]
        threads = [
            threading.Thread(target=self._run, args=(part, began + number * PERIOD / _THREADS, began + seconds))
            for number, part in enumerate(parts)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {program.job: program.sent for program in self._programs}, sum(
            program.failures for program in self._programs
        )

    def _run(self, programs: list[_Program], begins: float, ends: float) -> None:
        step = 0
        while programs and begins < ends:
            step += 1
            for number, program in enumerate(programs):
                time.sleep(max(0.0, begins + number * PERIOD / len(programs) - time.monotonic()))
                self._post(program, step)
            begins += PERIOD

    def _post(self, program: _Program, step: int) -> None:
        metrics = [("current_step", step), ("total_steps", 1000), ("loss", 1 / step), ("accuracy", 1 - 1 / step)]
        listed = [{"name": name, "value": f"{value:.6g}"} for name, value in metrics]
        status = {"progressPercentage": min(step, 99), "estimatedRemainingSeconds": 1000 - step, "metrics": listed}
        connection = http.client.HTTPSConnection(program.host, context=program.context, timeout=_TIMEOUT)
        try:
            body = json.dumps({"trainerStatus": status})
            connection.request("POST", program.path, body, {"Authorization": f"Bearer {program.token}"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                program.sent = step
            else:
                program.failures += 1
        except (OSError, http.client.HTTPException):
            program.failures += 1
        finally:
            connection.close()

    def _program(self, pod_name: str, job: str) -> _Program:
        client = self._environment.client
        pod = msgspec.json.decode(client.request("GET", f"{pods_path(NAMESPACE)}/{pod_name}"))
        variables = {variable["name"]: variable.get("value", "") for variable in pod["spec"]["containers"][0]["env"]}
        (volume,) = [candidate for candidate in pod["spec"]["volumes"] if candidate["name"] == PROGRESS_VOLUME]
        projection = volume["projected"]["sources"][0]["serviceAccountToken"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod["metadata"]["uid"]}
        spec = {"audiences": [projection["audience"]], "expirationSeconds": 3600, "boundObjectRef": bound}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = msgspec.json.decode(client.request("POST", _TOKENS, msgspec.json.encode(request)))
        authorities = pod["metadata"]["annotations"][ANNOTATION_PROGRESS_CA]
        context = self._contexts.get(authorities)
        if context is None:
            context = self._contexts[authorities] = ssl.create_default_context(cadata=authorities)
        url = urlsplit(variables[URL_VARIABLE])
        return _Program(job, url.netloc, url.path, answer["status"]["token"], context)
