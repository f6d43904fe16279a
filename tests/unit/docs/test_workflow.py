"""Everything that CI calls exists, with a Go that is new enough."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.gobuild import GO_MINIMUM, GOMOD, KUBERNETES_MODULES
from tfoperator.local.apiserver.display import discovery

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


OTHERS = [
    ("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    ("CoreDNS", "kubernetes", "github.com/coredns/coredns"),
    ("containerd", "kubernetes", "github.com/containerd/containerd/v2"),
    ("Helm", "kubernetes", "helm.sh/helm/v4"),
    ("kwok", "kubernetes", "sigs.k8s.io/kwok"),
    ("Prometheus", "prometheus", "github.com/prometheus/prometheus"),
    ("Kueue", "kueue", "sigs.k8s.io/kueue"),
    ("Volcano", "gang", "volcano.sh/volcano"),
    ("scheduler-plugins", "gang", "sigs.k8s.io/scheduler-plugins"),
    ("Kubeflow's training operator", "training-operator", "github.com/kubeflow/training-operator"),
]


def steps(job: str) -> list[dict[str, Any]]:
    return list(WORKFLOW["jobs"][job]["steps"])


def called(text: str) -> list[str]:
    """The targets of all calls of make."""
    return " ".join(re.findall(r"^(?:exec )?make ([a-z -]+?)(?: KUBERNETES=.*)?$", text, re.MULTILINE)).split()


@pytest.mark.parametrize("job", WORKFLOW["jobs"])
def test_a_job_of_the_workflow_calls_one_target_of_make(job: str) -> None:
    [target] = called("\n".join(step.get("run", "") for step in steps(job)))
    assert target == job
    assert target in re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_calls_the_short_one_and_then_everything() -> None:
    assert called((ROOT / ".ci/run").read_text()) == ["test", "test-all"]
    assert {"test", "test-all"} <= set(WORKFLOW["jobs"])


def test_each_supported_kubernetes_is_tested_and_named_with_the_release_that_is_pinned() -> None:
    newest, *older = KUBERNETES_MODULES
    assert WORKFLOW["jobs"]["test-all"]["strategy"]["matrix"]["kubernetes"] == ["", *(v[1:5] for v in older)]
    page = (ROOT / "docs/install.md").read_text()
    for version, module in KUBERNETES_MODULES.items():
        assert f"k8s.io/kubernetes {version} " in (GOMOD / module / "go.mod").read_text()
        assert f"| Kubernetes {version.removeprefix('v')} |" in page
    assert discovery.VERSION["gitVersion"].startswith(f"{newest}+")


@pytest.mark.parametrize(("name", "module", "package"), OTHERS)
def test_the_versions_of_other_programs_are_those_that_are_pinned(name: str, module: str, package: str) -> None:
    [pinned] = re.findall(rf"\s{re.escape(package)} v(\S+)", (GOMOD / module / "go.mod").read_text())
    released = re.sub(r"^0\.3(\d\d)\.", r"3.\1.", pinned)  # Prometheus 3.16 is v0.316 as a Go module
    assert f"| {name} {released} |" in (ROOT / "docs/install.md").read_text()


def test_programs_are_built_by_a_go_that_is_new_enough_as_root_of_the_debian_whose_packages_are_named() -> None:
    [version] = [step["with"]["go-version"] for step in steps("test-all") if "setup-go" in step.get("uses", "")]
    assert tuple(map(int, version.split("."))) >= GO_MINIMUM
    container = WORKFLOW["jobs"]["test-all"]["container"]
    assert container["image"].endswith("-bookworm")
    assert "--privileged" in container["options"]
