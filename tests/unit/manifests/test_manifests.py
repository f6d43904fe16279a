import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker.utils import exclude_paths
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tfoperator
from hack.lock import entries
from tests.support.large_yaml import all_loaded
from tfoperator.api.replicas.names import MANAGED_SELECTOR
from tfoperator.api.schema.crd import crd
from tfoperator.operator import Options
from tfoperator.operator.options.reading import parse_options

ROOT = Path(__file__).resolve().parents[3]

Objects = dict[tuple[str, str], dict[str, Any]]


def build(folder: str) -> Objects:
    command = ["kubectl", "kustomize", str(ROOT / "manifests" / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in all_loaded(done.stdout)}


def build_with_components(folder: Path, *components: str, **more: Any) -> Objects:
    """The base with these components, by an overlay in a folder of the test."""
    manifests = os.path.relpath(ROOT / "manifests", folder)  # kustomize takes no absolute paths
    parts = {
        "resources": [f"{manifests}/base"],
        "components": [f"{manifests}/components/{name}" for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({**parts, **more}))
    return build(str(folder))


def pod_of(objects: Objects) -> dict[str, Any]:
    """The operator's pod template."""
    template: dict[str, Any] = objects["Deployment", "tfoperator"]["spec"]["template"]
    return template


def container_of(objects: Objects) -> dict[str, Any]:
    (only,) = pod_of(objects)["spec"]["containers"]
    return dict(only)


def ports_of(objects: Objects) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container_of(objects)["ports"]}


def check_service(objects: Objects, name: str, *ports: tuple[int, str]) -> None:
    """It leads to these ports of the operator's pods."""
    spec = objects["Service", name]["spec"]
    assert [(port["port"], port["targetPort"]) for port in spec["ports"]] == list(ports)
    assert spec["selector"].items() <= pod_of(objects)["metadata"]["labels"].items()


def check_bound(objects: Objects, name: str, *kinds: str) -> None:
    """Its roles are bound to the account of the operator's pods."""
    subject = {"kind": "ServiceAccount", "name": pod_of(objects)["spec"]["serviceAccountName"]}
    for kind in kinds:
        binding = objects[f"{kind}Binding", name]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, name)
        assert binding["subjects"] == [{**subject, "namespace": "tfoperator-system"}]


@pytest.fixture(scope="module")
def base() -> Objects:
    return build("base")


@pytest.fixture(scope="module")
def container(base: Objects) -> dict[str, Any]:
    return container_of(base)


def test_the_base_holds_the_crd_of_the_types_and_the_rest_in_the_operators_namespace(base: Objects) -> None:
    assert base["CustomResourceDefinition", "tfjobs.kubeflow.org"]["spec"] == crd()["spec"]
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    for (kind, _), obj in base.items():
        assert obj["metadata"].get("namespace") == (None if kind in cluster_wide else "tfoperator-system"), kind


def test_the_pods_meet_the_restricted_standard(base: Objects, container: dict[str, Any]) -> None:
    labels = base["Namespace", "tfoperator-system"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = pod_of(base)["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    bare = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == bare


def test_two_replicas_elect_a_leader_without_rights_to_all_or_secrets(base: Objects, container: dict[str, Any]) -> None:
    assert base["Deployment", "tfoperator"]["spec"]["replicas"] == 2
    assert "--leader-elect" in container["args"]
    create, rest = base["Role", "tfoperator-leader-election"]["rules"]
    assert (create["resources"], create["verbs"]) == (["leases"], ["create"])
    assert (rest["resources"], set(rest["verbs"])) == (["leases"], {"get", "update"})
    assert rest["resourceNames"] == [Options().leader_elect_id]
    assert ("ServiceAccount", pod_of(base)["spec"]["serviceAccountName"]) in base
    assert len([kind for kind, _ in base if kind.endswith("Binding")]) == 2
    check_bound(base, "tfoperator", "ClusterRole")
    check_bound(base, "tfoperator-leader-election", "Role")
    assert ("ClusterRole", "tfoperator") in base
    for key, rule in ((key, rule) for key, obj in base.items() for rule in obj.get("rules", [])):
        assert not {"*", "secrets"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}, key


def test_probes_and_metrics_reach_the_ports_that_the_flags_open(base: Objects, container: dict[str, Any]) -> None:
    ports = ports_of(base)
    assert f"--metrics-bind-address=:{ports['metrics']}" in container["args"]
    assert f"--health-probe-bind-address=:{ports['health']}" in container["args"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    check_service(base, "tfoperator-metrics", (ports["metrics"], "metrics"))
    for kind in ("Deployment", "PodDisruptionBudget"):
        selector = base[kind, "tfoperator"]["spec"]["selector"]["matchLabels"]
        assert selector.items() <= pod_of(base)["metadata"]["labels"].items()


def test_what_the_base_makes_tells_what_it_is_part_of_and_its_version(base: Objects, container: dict[str, Any]) -> None:
    values = {"name": "tfoperator", "part-of": "tfoperator", "component": "operator", "version": tfoperator.__version__}
    labels = {f"app.kubernetes.io/{name}": value for name, value in values.items()}
    assert all(labels.items() <= obj["metadata"]["labels"].items() for obj in [*base.values(), pod_of(base)])
    assert container["image"] == f"tfoperator:{tfoperator.__version__}"
    assert f"ARG VERSION={tfoperator.__version__}\n" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "examples/digits/Dockerfile"])
def test_a_builder_is_sent_what_it_copies(dockerfile: str) -> None:
    sent = exclude_paths(str(ROOT), (ROOT / ".dockerignore").read_text().splitlines())
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / dockerfile).read_text(), re.MULTILINE)
    assert copied
    for source in " ".join(copied).split():
        files = [path for path in (ROOT / source).rglob("*.py") if "__pycache__" not in path.parts] or [ROOT / source]
        assert {str(path.relative_to(ROOT)) for path in files} <= sent


def test_the_examples_image_has_the_programs_of_the_manifests_that_name_it() -> None:
    assert "\nCOPY examples examples\n" in (ROOT / "examples/digits/Dockerfile").read_text()
    texts = [path.read_text() for path in (ROOT / "examples").glob("*/*.yaml")]
    command = r"image: tfoperator/digits:latest\n +command: \[python, ([^],]+)"
    programs = {program for text in texts for program in re.findall(command, text)}
    assert len(programs) > 5
    assert {program for program in programs if not (ROOT / program).is_file()} == set()


def test_the_webhook_serves_both_versions_and_may_touch_its_own_secret_and_its_own_crd_only(base: Objects) -> None:
    overlay = build("overlays/webhook")
    assert overlay["CustomResourceDefinition", "tfjobs.kubeflow.org"]["spec"] == crd(all_versions=True)["spec"]
    assert f"--webhook-bind-address=:{ports_of(overlay)['webhook']}" in container_of(overlay)["args"]
    reference = crd(all_versions=True)["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert (reference["name"], reference["namespace"]) == (Options().webhook_service, "tfoperator-system")
    check_service(overlay, reference["name"], (reference["port"], "webhook"))
    own = {key for key in overlay if key not in base and key[0] in ("Role", "ClusterRole")}
    assert own == {("Role", "tfoperator-webhook"), ("ClusterRole", "tfoperator-webhook")}
    rules = [rule for key in own for rule in overlay[key]["rules"]]
    assert [rule for rule in rules if rule["verbs"] != ["create"] and not rule["resourceNames"]] == []
    names = {name for rule in rules for name in rule.get("resourceNames", [])}
    assert names == {Options().webhook_secret, "tfjobs.kubeflow.org"}
    check_bound(overlay, "tfoperator-webhook", "Role", "ClusterRole")


def test_the_progress_overlay_opens_a_port_to_the_pods_of_jobs_and_may_keep_its_certificate(base: Objects) -> None:
    overlay = build("overlays/progress")
    options = parse_options(container_of(overlay)["args"], {})
    assert options.progress_bind_address.port == ports_of(overlay)["progress"]
    check_service(overlay, options.progress_service, (443, "progress"))
    added = {key for key in overlay if key not in base and "Binding" not in key[0] and "Role" in key[0]}
    assert added == {("Role", "tfoperator-progress"), ("ClusterRole", "tfoperator-progress")}
    create, rest = overlay["Role", "tfoperator-progress"]["rules"]
    assert (create["verbs"], rest["resourceNames"]) == (["create"], [options.progress_secret])
    (keys,) = overlay["ClusterRole", "tfoperator-progress"]["rules"]
    assert (keys["verbs"], set(keys)) == (["get"], {"nonResourceURLs", "verbs"})
    check_bound(overlay, "tfoperator-progress", "Role", "ClusterRole")
    (rule,) = overlay["NetworkPolicy", "tfoperator-progress"]["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "progress"}]
    key, _, value = MANAGED_SELECTOR.partition("=")
    assert rule["from"] == [{"namespaceSelector": {}, "podSelector": {"matchLabels": {key: value}}}]


def test_with_cert_manager_the_operator_has_no_right_to_certificates(base: Objects) -> None:
    overlay = build("overlays/webhook-cert-manager")
    assert {key for key in overlay if "Role" in key[0]} == {key for key in base if "Role" in key[0]}
    certificate = overlay["Certificate", "tfoperator-webhook"]
    container = container_of(overlay)
    (volume,), (mount,) = pod_of(overlay)["spec"]["volumes"], container["volumeMounts"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert volume["secret"]["defaultMode"] == 0o440
    assert (mount["name"], mount["readOnly"]) == (volume["name"], True)
    assert f"--webhook-cert-dir={mount['mountPath']}" in container["args"]
    definition = overlay["CustomResourceDefinition", "tfjobs.kubeflow.org"]
    source = f"tfoperator-system/{certificate['metadata']['name']}"
    assert definition["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": source}
    service = definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" in certificate["spec"]["dnsNames"]


@pytest.mark.parametrize(
    "folder", ["base", *sorted(f"overlays/{path.name}" for path in (ROOT / "manifests" / "overlays").iterdir())]
)
def test_the_operator_understands_the_flags_of_every_deployment(folder: str) -> None:
    container = container_of(build(folder))
    assert container["command"] == ["python", "-m", "tfoperator.operator"]
    parse_options(container["args"], {})


@pytest.mark.parametrize("component", sorted(path.name for path in (ROOT / "manifests" / "components").iterdir()))
def test_every_component_is_told_of(component: str) -> None:
    assert f"`components/{component}`" in (ROOT / "docs" / "install.md").read_text()


def test_the_configuration_is_a_file_beside_the_overlay_that_the_operator_reads(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text((ROOT / "examples/accelerators/operator.yaml").read_text())
    generated = {"name": "tfoperator-config", "namespace": "tfoperator-system", "files": ["config.yaml"]}
    built = build_with_components(tmp_path, "configuration", "log-archive", configMapGenerator=[generated])
    [made] = [obj for (kind, _), obj in built.items() if kind == "ConfigMap"]
    pod, container = pod_of(built)["spec"], container_of(built)
    [mount] = [volume_mount for volume_mount in container["volumeMounts"] if volume_mount["name"] == "config"]
    [volume] = [pod_volume for pod_volume in pod["volumes"] if pod_volume["name"] == "config"]
    assert volume["configMap"]["name"] == made["metadata"]["name"] != "tfoperator-config", "a change restarts the pods"
    [option] = [argument for argument in container["args"] if argument.startswith("--config=")]
    assert option == f"--config={mount['mountPath']}/{next(iter(made['data']))}"
    (tmp_path / "read.yaml").write_text(made["data"]["config.yaml"])
    assert parse_options([f"--config={tmp_path}/read.yaml"], {}).accelerators


def test_the_namespaced_overlay_has_rights_in_one_namespace_only_also_to_pod_groups(tmp_path: Path) -> None:
    overlay = build("overlays/namespaced")
    assert ("ClusterRole", "tfoperator") not in overlay
    for kind in ("Role", "RoleBinding"):
        assert overlay[kind, "tfoperator"]["metadata"]["namespace"] == "training"
    assert overlay["RoleBinding", "tfoperator"]["roleRef"]["kind"] == "Role"
    assert "--namespace=training" in container_of(overlay)["args"]
    gang = build_with_components(tmp_path, "namespaced", "volcano")
    assert {key for key, obj in gang.items() if "podgroups" in str(obj.get("rules"))} == {("Role", "tfoperator")}
    assert gang["Role", "tfoperator"]["metadata"]["namespace"] == "training"


@pytest.mark.parametrize(
    ("overlay", "group"),
    [
        ("volcano", "scheduling.volcano.sh"),
        ("scheduler-plugins", "scheduling.x-k8s.io"),
        ("kubernetes-gangs", "scheduling.k8s.io"),
    ],
)
def test_only_overlays_for_gang_scheduling_give_rights_to_pod_groups(base: Objects, overlay: str, group: str) -> None:
    built = build(f"overlays/{overlay}")
    name = f"tfoperator-{overlay}"
    if group == "scheduling.k8s.io":
        assert set(built) == set(base)
    else:
        assert set(built) - set(base) == {("ClusterRole", name), ("ClusterRoleBinding", name)}
        (priority_classes,) = built["ClusterRole", name]["rules"]
        assert set(priority_classes["verbs"]) == {"list", "watch"}
        check_bound(built, name, "ClusterRole")
    (pod_groups,) = [rule for rule in built["ClusterRole", "tfoperator"]["rules"] if "podgroups" in rule["resources"]]
    assert (pod_groups["apiGroups"], pod_groups["resources"]) == ([group], ["podgroups"])
    assert [arg for arg in container_of(built)["args"] if arg.startswith("--gang-scheduler-name=")]
    assert "podgroups" not in str([obj.get("rules") for obj in base.values()])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The base with the components for monitoring and the network policy."""
    return build_with_components(tmp_path_factory.mktemp("overlay"), "monitoring", "network-policy")


def test_monitoring_scrapes_the_base_under_the_name_that_rules_ask_for(base: Objects, watched: Objects) -> None:
    monitor = watched["ServiceMonitor", "tfoperator"]
    service = base["Service", "tfoperator-metrics"]
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    for group in watched["PrometheusRule", "tfoperator"]["spec"]["groups"]:
        for rule in group["rules"]:
            assert f'job="{job}"' in rule["expr"] or "kube_deployment_" in rule["expr"]
            assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_alert_is_documented(watched: Objects) -> None:
    groups = watched["PrometheusRule", "tfoperator"]["spec"]["groups"]
    alerts = {rule["alert"]: rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]}
    page = (ROOT / "docs" / "monitoring.md").read_text()
    rows = re.findall(r'^\| <a id="(\w+)"></a>`(TF\w+)` \|', page, re.MULTILINE)
    assert [(name, f"docs/monitoring.md#{anchor}") for anchor, name in rows] == [*alerts.items()]


def test_grafana_finds_the_dashboard_and_its_panels_do_not_overlap(watched: Objects) -> None:
    config_map = watched["ConfigMap", "tfoperator-dashboard"]
    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    dashboard = json.loads(config_map["data"]["tfoperator.json"])
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells


def test_the_network_policy_lets_in_who_scrapes_and_out_to_the_api_server(base: Objects, watched: Objects) -> None:
    spec = watched["NetworkPolicy", "tfoperator"]["spec"]
    labels = pod_of(base)["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    (scraping,) = spec["ingress"]
    assert scraping["from"], "an empty list would let everybody in"
    assert [port["port"] for port in scraping["ports"]] == ["metrics"]
    assert "metrics" in ports_of(base)
    (api_server,) = spec["egress"]
    assert {port["port"] for port in api_server["ports"]} == {443, 6443}


@pytest.mark.parametrize("folder", ["base", "overlays/webhook", "overlays/progress"])
def test_no_port_is_open_to_every_pod_but_the_webhooks(folder: str) -> None:
    built = build(folder)
    policies = [obj["spec"] for (kind, _), obj in built.items() if kind == "NetworkPolicy"]
    labels = pod_of(built)["metadata"]["labels"].items()
    assert all(policy["podSelector"]["matchLabels"].items() <= labels for policy in policies)
    assert {name for policy in policies for name in policy["policyTypes"]} == {"Ingress"}
    rules = [rule for policy in policies for rule in policy["ingress"]]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports_of(built).keys() - {"health"}
    assert {port["port"] for rule in rules if not rule.get("from") for port in rule["ports"]} <= {"webhook"}


def test_the_log_archive_adds_a_volume_and_the_right_to_read_logs_and_nothing_else(base: Objects) -> None:
    overlay = build("overlays/log-archive")
    assert set(overlay) - set(base) == {("PersistentVolumeClaim", "tfoperator-log-archive")}
    added = [rule for rule in overlay["ClusterRole", "tfoperator"]["rules"] if "pods/log" in rule["resources"]]
    assert added == [{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]
    assert len(overlay["ClusterRole", "tfoperator"]["rules"]) == len(base["ClusterRole", "tfoperator"]["rules"]) + 1
    pod, container = pod_of(overlay)["spec"], container_of(overlay)
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    assert mount["name"] == volume["name"]
    assert f"--archive-dir={mount['mountPath']}" in container["args"]
    assert volume["persistentVolumeClaim"]["claimName"] == "tfoperator-log-archive"
    assert pod["securityContext"]["runAsNonRoot"] is True


def with_requirements(names: Iterable[str]) -> set[str]:
    """Distributions and all that they require, by canonical name; extras count as not required."""
    distributions: set[str] = set()
    todo = [canonicalize_name(name) for name in names]
    while todo:
        name = todo.pop()
        if name not in distributions:
            distributions.add(name)
            required = [Requirement(text) for text in distribution(name).requires or []]
            needed = [
                requirement.name
                for requirement in required
                if not requirement.marker or requirement.marker.evaluate({"extra": ""})
            ]
            todo += map(canonicalize_name, needed)
    return distributions


def test_the_image_installs_what_the_operator_imports_and_no_more() -> None:
    listed = entries((ROOT / "requirements/operator.in").read_text())
    code = "import sys; before = {*sys.modules}; import tfoperator.operator.__main__; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    modules = {name.partition(".")[0] for name in done.stdout.split()}
    owners = packages_distributions()
    # tenacity imports tornado where something else has brought it, and that colorama; the image has neither.
    absent = {"tfoperator", "tornado", "colorama"}
    imported = {canonicalize_name(name) for module in modules for name in owners.get(module, [])} - absent
    assert imported <= with_requirements(listed)
    # Imported only when needed: for credentials of a cluster, a configuration file, the webhook, progress, objects.
    late = {"cryptography", "kubernetes", "obstore", "pyjwt", "pyyaml"}
    assert {canonicalize_name(name) for name in listed} - imported <= late
