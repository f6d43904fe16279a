"""Plays the programs of a namespace's pods that report their progress, on a real API server without a node."""

import json
import ssl
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, Json, decode, tfjob
from tests.support.eventually import eventually
from tfoperator.api.replicas.progress_names import ANNOTATION_PROGRESS_CA, CA_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from tfoperator.kube.protocol.errors import AlreadyExistsError
from tfoperator.kube.protocol.resources import PODS, Resource

SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
WAIT = 60.0


class Reporters:
    """The programs of a namespace's pods, with what their pods would give them."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        with suppress(AlreadyExistsError):
            cluster.client.create(SERVICE_ACCOUNTS, cluster.namespace, {"metadata": {"name": "default"}}, decode)

    def submit(self, name: str, **replicas: int) -> None:
        manifest = tfjob(name, **replicas)
        manifest["spec"]["progress"] = {}
        for spec in manifest["spec"]["tfReplicaSpecs"].values():
            # In a cluster an admission plugin sets it.
            spec["template"]["spec"]["serviceAccountName"] = "default"
        self.cluster.submit(manifest)
        names = {f"{name}-{kind.lower()}-{index}" for kind, count in replicas.items() for index in range(count)}
        eventually(lambda: names <= set(self.cluster.pods()), within=WAIT, every=0.05, what=f"the pods of {name}")

    def pod(self, name: str) -> Json:
        return dict(self.cluster.client.get(PODS, self.cluster.namespace, name, decode))

    def variables(self, pod: str) -> dict[str, str]:
        (container,) = self.pod(pod)["spec"]["containers"]
        return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}

    def audience(self, pod: str) -> str:
        (volume,) = [volume for volume in self.pod(pod)["spec"]["volumes"] if volume["name"] == "tfoperator-progress"]
        return str(volume["projected"]["sources"][0]["serviceAccountToken"]["audience"])

    def token(self, pod: str, audience: str = "", *, bound: bool = True) -> str:
        """A token as the kubelet gets it for the pod; for another audience if one is given."""
        meta = self.pod(pod)["metadata"]
        spec: Json = {"audiences": [audience or self.audience(pod)], "expirationSeconds": 3600}
        if bound:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": meta["uid"]}
        requests = Resource("", "v1", "TokenRequest", "serviceaccounts/default/token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.cluster.client.create(requests, self.cluster.namespace, body, decode)["status"]["token"])

    def environment(self, pod: str) -> dict[str, str]:
        """The variables of the pod's program, with its two files where this machine has them."""
        files = self.folder / pod
        files.mkdir(exist_ok=True)
        (files / "ca.crt").write_text(self.pod(pod)["metadata"]["annotations"][ANNOTATION_PROGRESS_CA])
        (files / "token").write_text(self.token(pod))
        variables = self.variables(pod)
        return {
            URL_VARIABLE: variables[URL_VARIABLE],
            CA_VARIABLE: str(files / Path(variables[CA_VARIABLE]).name),
            TOKEN_VARIABLE: str(files / Path(variables[TOKEN_VARIABLE]).name),
        }

    def post(self, pod: str, status: Any, token: str = "") -> tuple[int, Json]:
        """Report as the program of this pod does, or with another token."""
        environment = self.environment(pod)
        request = urllib.request.Request(
            environment[URL_VARIABLE],
            json.dumps({"trainerStatus": status}).encode(),
            {"Authorization": f"Bearer {token or Path(environment[TOKEN_VARIABLE]).read_text()}"},
        )
        context = ssl.create_default_context(cafile=environment[CA_VARIABLE])
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def accepted(self, pod: str, status: Any, token: str = "") -> Json:
        """As `post`, as soon as the operator knows the pod and the cluster's keys; the report as it was understood."""

        def answer() -> Json:
            code, report = self.post(pod, status, token)
            assert code == 200, report
            return report

        return eventually(answer, within=WAIT, every=0.2, what=f"the report of {pod} is taken")

    def wait_percentage(self, name: str, percentage: int) -> Json:
        def reported() -> Json | None:
            progress = (self.cluster.job(name).get("status") or {}).get("progress") or {}
            return progress if progress.get("percentage") == percentage else None

        return eventually(reported, within=WAIT, every=0.05, what=f"{name} at {percentage} %") or {}
