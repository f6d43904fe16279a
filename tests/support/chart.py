"""Helm against a control plane, and the program of the chart's `helm test` without a pod."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from hack import gobuild
from hack.chart import CHART


def helm(kubeconfig: Path, *arguments: str) -> str:
    """Run Helm; return its output. If Helm fails, the test fails with Helm's output."""
    command = [gobuild.find("helm"), *arguments, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_chart_test(kubeconfig: Path, namespace: str) -> subprocess.CompletedProcess[str]:
    """Run the program of the pod of `helm test`, with the account of the kubeconfig, for a release in one namespace."""
    where = ("-n", namespace, "--set", f"namespaces={{{namespace}}}")
    manifest = helm(
        kubeconfig, "template", "tfoperator", str(CHART), *where, "--show-only", "templates/tests/leads.yaml"
    )
    (container,) = yaml.safe_load(manifest)["spec"]["containers"]
    assert container["command"] == ["python", "-c"]
    command = [sys.executable, "-c", *container["args"]]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment, check=False)
