"""A real Prometheus, on loopback and in a folder of the test, and its promtool."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack import gobuild
from hack.processes import free_port, spawn
from tests.support.eventually import eventually

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
COMPONENT = ROOT / "manifests" / "components" / "monitoring"

SELECTOR = (
    r"\b((?:tfoperator|training_operator|workqueue|rest_client|process|kube_deployment)_[a-z_]+|up)\b(\{[^}]*\})?"
)
"""A metric of ours in an expression, with its matchers if it has any."""


def promtool(*arguments: str, folder: Path) -> str:
    """Return promtool's output; if promtool fails, fail with its output."""
    done = subprocess.run(
        [gobuild.find("promtool"), *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


class PrometheusApi:
    """Asks a Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        """Return `data` of an answer of its API; if Prometheus can't read an expression, fail with its answer."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[Json]:
        """The samples of an expression now."""
        return list(self.get("query", query=expression)["result"])

    def rules(self) -> dict[str, Json]:
        """Every rule by its name, with `health`, `lastError` and `lastEvaluation`."""
        return {rule["name"]: rule for group in self.get("rules")["groups"] for rule in group["rules"]}

    def firing(self) -> dict[str, Mapping[str, str]]:
        """The annotations of the alerts that fire, by name."""
        alerts = self.get("alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert["annotations"] for alert in alerts if alert["state"] == "firing"}

    def families(self) -> set[str]:
        """The names of the metrics that the target exports, also of those that have no sample yet."""
        return {family["metric"] for family in self.get("targets/metadata", match_target='{job="tfoperator"}')}


class Prometheus(PrometheusApi):
    """Scrapes one target each second, with the labels that a ServiceMonitor gives it."""

    def __init__(self, folder: Path, port_of_target: int, rules: Json) -> None:
        self._folder = folder
        port = free_port()
        super().__init__(f"http://127.0.0.1:{port}")
        self._address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "prometheus.log"
        labels = {"namespace": "tfoperator-system", "pod": "tfoperator-0"}
        targets = [{"targets": [f"127.0.0.1:{port_of_target}"], "labels": labels}]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.json"],
            "scrape_configs": [{"job_name": "tfoperator", "static_configs": targets}],
        }
        # YAML is a superset of JSON.
        (folder / "rules.json").write_text(json.dumps(rules))
        (folder / "prometheus.yaml").write_text(json.dumps(config))

    def start(self) -> Prometheus:
        command = [
            gobuild.find("prometheus"), "--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn",
            f"--web.listen-address={self._address}",
        ]  # fmt: skip
        self._process = spawn(command, self.log, cwd=self._folder)
        eventually(self._ready, every=0.1, what="Prometheus is ready")
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        try:
            return bool(self.get("status/runtimeinfo"))
        except OSError:
            return False
