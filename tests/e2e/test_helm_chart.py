"""The Helm chart holds what kustomize makes: rendered by Helm, and compared object by object."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import tfoperator
from hack import gobuild
from hack.chart import CHART
from hack.controlplane import ControlPlane
from tests.support.cluster import Cluster
from tests.support.kubectl import Kubectl, write_overlay
from tfoperator.operator.options.reading import parse_options

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
Objects = dict[tuple[str, str, str], Json]
Render = Callable[..., Objects]

NAMESPACE = "tfoperator-system"
OF_HELM = {
    "helm.sh/chart", "helm.sh/resource-policy", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
}  # fmt: skip
"""Labels and an annotation of which kustomize knows nothing."""

ALL_OF_MONITORING = {part: {"enabled": True} for part in ("serviceMonitor", "rules", "dashboard")}
GANG = "scheduler-plugins-scheduler"

VARIANTS: dict[str, tuple[list[str], list[str], Json]] = {
    "cluster": (["overlays/cluster"], [], {}),
    "namespaced": (["overlays/namespaced"], [], {"namespaces": ["training"]}),
    "webhook": (["overlays/webhook"], [], {"webhook": {"enabled": True}}),
    "webhook-cert-manager": (
        ["overlays/webhook-cert-manager"],
        [],
        {"webhook": {"enabled": True, "certManager": True}},
    ),
    "progress": (["overlays/progress"], [], {"progress": {"enabled": True}}),
    "volcano": (["overlays/volcano"], [], {"gangSchedulerName": "volcano"}),
    "scheduler-plugins": (["overlays/scheduler-plugins"], [], {"gangSchedulerName": GANG}),
    "kubernetes-gangs": (["overlays/kubernetes-gangs"], [], {"gangSchedulerName": "kubernetes"}),
    "kueue": (["overlays/kueue"], [], {"kueue": {"enabled": True}}),
    "leave-running-pods": (["base"], ["leave-running-pods"], {"defaultCleanPodPolicy": "None"}),
    "network-per-job": (["base"], ["network-per-job"], {"defaultNetwork": "PerJob"}),
    "hang-detection": (["overlays/hang-detection"], [], {"hangDetection": {"enabled": True}}),
    "log-archive": (["overlays/log-archive"], [], {"logArchive": {"enabled": True}}),
    "log-archive-objects": (
        ["base"],
        ["log-archive-objects"],
        {"logArchive": {"enabled": True, "objectsSecret": "tfoperator-log-archive"}},
    ),
    "stall-stacks": (
        ["overlays/log-archive"],
        ["stall-stacks"],
        {"logArchive": {"enabled": True}, "stallStacks": {"enabled": True}},
    ),
    "metrics-secure": (
        ["base"],
        ["monitoring", "metrics-secure"],
        {"metrics": {"secure": True}, "monitoring": ALL_OF_MONITORING},
    ),
    "metrics-secure-cert-manager": (
        ["base"],
        ["monitoring", "metrics-secure", "metrics-secure-cert-manager", "log-archive"],
        {
            "metrics": {"secure": True, "certManager": True},
            "monitoring": ALL_OF_MONITORING,
            "logArchive": {"enabled": True},
        },
    ),
    "everything": (
        ["overlays/webhook"],
        ["progress", "monitoring", "network-policy", "log-archive", "volcano"],
        {
            "webhook": {"enabled": True},
            "progress": {"enabled": True},
            "monitoring": ALL_OF_MONITORING,
            "networkPolicy": {"egress": True},
            "logArchive": {"enabled": True},
            "gangSchedulerName": "volcano",
        },
    ),
    "everything-for-one-namespace": (
        ["base"],
        ["scheduler-plugins", "log-archive", "namespaced", "webhook", "webhook-cert-manager"],
        {
            "namespaces": ["training"],
            "webhook": {"enabled": True, "certManager": True},
            "logArchive": {"enabled": True},
            "gangSchedulerName": GANG,
        },
    ),
}
"""For kustomize the resources and components, for Helm the values."""


def run(program: str, *arguments: str) -> str:
    command = [gobuild.find(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def keyed(text: str) -> Objects:
    objects = [document for document in yaml.safe_load_all(text) if document]
    keys = [(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) for obj in objects]
    assert len(set(keys)) == len(keys), "an object is there twice"
    return dict(zip(keys, objects, strict=True))


def kustomized(folder: Path, resources: list[str], components: list[str]) -> Objects:
    write_overlay(folder, resources, components)
    return keyed(run("kubectl", "kustomize", str(folder)))


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """Return the objects that `helm template` makes of values."""

    def rendered(
        values: Json | None = None, name: str = "tfoperator", namespace: str = NAMESPACE, *, tests: bool = False
    ) -> Objects:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        release = ("--namespace", namespace, "--values", str(file), *(() if tests else ("--skip-tests",)))
        return keyed(run("helm", "template", name, str(CHART), *release))

    return rendered


def without_helms_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_helms_own(item) for key, item in value.items() if key not in OF_HELM}
    if isinstance(value, list):
        return [without_helms_own(item) for item in value]
    return value


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def normalized(objects: Objects) -> Objects:
    """Without what is Helm's or kustomize's way and not the operator's. Helm makes no namespace of its own accord."""
    result = {}
    for key, obj in objects.items():
        if key[0] == "Namespace":
            continue
        obj = without_helms_own(obj)
        metadata = obj["metadata"]
        for name in ("name", "part-of", "component"):  # kustomize: on what the base has only
            metadata.setdefault("labels", {}).pop(f"app.kubernetes.io/{name}", None)
        for empty in [name for name in ("labels", "annotations") if metadata.get(name) == {}]:
            del metadata[empty]
        if key[0] == "Deployment":
            obj["spec"]["template"]["metadata"].pop("creationTimestamp", None)
            (container,) = obj["spec"]["template"]["spec"]["containers"]
            lists = (container["args"], container["ports"], container.get("volumeMounts", []))
            for unordered in (*lists, obj["spec"]["template"]["spec"].get("volumes", [])):
                unordered.sort(key=as_text)
        for data in (obj.get("data") or {}).keys() & {"tfoperator.json"}:
            obj["data"][data] = json.loads(obj["data"][data])
        obj.get("rules", []).sort(key=as_text)
        result[key] = obj
    return result


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_and_kustomize_make_the_same_objects(variant: str, render: Render, tmp_path: Path) -> None:
    resources, components, values = VARIANTS[variant]
    expected = normalized(kustomized(tmp_path, resources, components))
    rendered = normalized(render(values))
    assert set(rendered) == set(expected)
    for key, obj in rendered.items():
        assert obj == expected[key], key


ALL_PARTS: Json = {
    "webhook": {"enabled": True, "certManager": True},
    "metrics": {"secure": True, "certManager": True},
    "progress": {"enabled": True},
    "logArchive": {"enabled": True},
    "monitoring": ALL_OF_MONITORING,
    "kueue": {"enabled": True},
    "gangSchedulerName": "volcano",
    "config": {"threadiness": 3},
}


def not_text(value: Any, path: str = "") -> list[str]:
    """Return the paths of the names and labels in a manifest whose values are not strings."""
    if isinstance(value, list):
        return [found for number, item in enumerate(value) for found in not_text(item, f"{path}[{number}]")]
    if not isinstance(value, dict):
        return []
    named = {"name", "namespace", "serviceAccountName", "priorityClassName", "storageClassName", "claimName"}
    wrong = [
        f"{path}.{key}"
        for key, item in value.items()
        if (key in named or path.endswith(("labels", "Labels"))) and not isinstance(item, str | dict)
    ]
    names = value.get("resourceNames", ())
    wrong += [f"{path}.resourceNames" for name in names if not isinstance(name, str)]
    return wrong + [found for key, item in value.items() for found in not_text(item, f"{path}.{key}")]


@pytest.mark.parametrize(
    "values",
    [
        {"namespaces": ["2024", "on"], "priorityClassName": "100", "fullnameOverride": "on", "nameOverride": "456"},
        {"logArchive": {"enabled": True, "existingClaim": "7"}, "serviceAccount": {"create": False, "name": "8"}},
        {"logArchive": {"enabled": True, "storageClassName": "9"}, "serviceAccount": {"name": "true"}},
        {"logArchive": {"enabled": True, "objectsSecret": "10"}},
    ],
)
def test_names_that_look_like_numbers_or_truth_values_stay_text(values: Json, render: Render) -> None:
    objects = render({**ALL_PARTS, **values}, name="123", namespace="2026", tests=True)
    assert [
        found for key, obj in objects.items() if key[0] != "CustomResourceDefinition" for found in not_text(obj)
    ] == []
    crd = objects["CustomResourceDefinition", "", "tfjobs.kubeflow.org"]
    assert crd["metadata"]["labels"]["app.kubernetes.io/instance"] == "123"


def test_each_label_of_a_release_with_the_longest_name_is_valid(render: Render) -> None:
    values = {"nameOverride": "n" * 63, "fullnameOverride": "f" * 40}
    objects = render({**ALL_PARTS, **values}, name="r" * 53, namespace="s" * 63, tests=True)
    labels = [label for obj in objects.values() for label in obj["metadata"]["labels"].values()]
    assert max(map(len, labels)) == 63
    assert max(len(name) for kind, _, name in objects if kind == "Service") <= 63


def test_helm_finds_no_mistake_in_the_chart_which_is_of_this_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == tfoperator.__version__
    output = run("helm", "lint", str(CHART), "--namespace", NAMESPACE)
    assert "1 chart(s) linted, 0 chart(s) failed" in output
    assert "[WARNING]" not in output


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": 0}, "replicas"),
        ({"runAsUser": 0}, "runAsUser"),
        ({"logFormat": "xml"}, "logFormat"),
        ({"image": {"digest": "sha256:abc"}}, "digest"),
        ({"monitoring": {"rules": {"enable": True}}}, "enable"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name"),
        ({"metrics": {"certManager": True}}, "metrics.secure"),
        ({"metrics": {"secure": True, "issuerRef": {"name": "x"}}}, "metrics.certManager"),
        ({"webhook": {"certManager": True}}, "webhook.enabled"),
        ({"webhook": {"enabled": True, "issuerRef": {"name": "x"}}}, "webhook.certManager"),
        ({"webhook": {"enabled": True, "certManager": True, "issuerRef": {"kind": "ClusterIssuer"}}}, "issuerRef"),
        ({"progress": {"forAllJobs": True}}, "progress.enabled"),
        ({"stallStacks": {"enabled": True}}, "logArchive.enabled"),
        ({"logArchive": {"existingClaim": "logs"}}, "logArchive.enabled"),
        ({"logArchive": {"enabled": True, "existingClaim": "a", "objectsSecret": "b"}}, "one of them"),
        ({"networkPolicy": {"apiServer": {"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}}}, "networkPolicy.egress"),
        ({"networkPolicy": {"webhookFrom": [{"namespaceSelector": {}}]}}, "webhook.enabled"),
        ({"networkPolicy": {"apiServer": {"ports": [70000]}}}, "ports"),
        ({"podLabels": {"app.kubernetes.io/name": "other"}}, "app.kubernetes.io/name"),
        ({"commonLabels": {"app.kubernetes.io/instance": "other"}}, "app.kubernetes.io/instance"),
        ({"podLabels": {"team": "with blanks"}}, "podLabels"),
        ({"podAnnotations": {"checksum/config": "x"}}, "checksum/config"),
        ({"nameOverride": "Upper"}, "nameOverride"),
        ({"fullnameOverride": "x" * 41}, "fullnameOverride"),
        ({"namespaces": ["a_b"]}, "namespaces"),
        ({"namespaces": ["a", "a"]}, "namespaces"),
        ({"image": {"tag": "a b"}}, "tag"),
        ({"resources": {"limits": {"memory": "512 MB"}}}, "memory"),
        ({"resources": {"limit": {"memory": "512Mi"}}}, "limit"),
        ({"logArchive": {"enabled": True, "maxBytes": "ten"}}, "maxBytes"),
        ({"logArchive": {"enabled": True, "size": "20 GB"}}, "size"),
        ({"monitoring": {"serviceMonitor": {"enabled": True, "interval": "half a minute"}}}, "interval"),
        ({"podDisruptionBudget": {"maxUnavailable": "110%"}}, "maxUnavailable"),
        ({"podDisruptionBudget": True}, "podDisruptionBudget"),
        ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
        ({"strategy": {"type": "Sometimes"}}, "strategy"),
        (
            {
                "replicas": 1,
                "strategy": {"type": "RollingUpdate"},
                "logArchive": {"enabled": True, "accessModes": ["ReadWriteOnce"]},
            },
            "strategy.type",
        ),
        ({"logArchive": {"enabled": True, "accessModes": ["ReadWriteOnce"]}}, "replicas to 1"),
    ],
)
def test_values_that_would_have_no_effect_or_a_bad_one_are_refused(
    values: Json, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    command = [gobuild.find("helm"), "template", "tfoperator", str(CHART), "--values", str(tmp_path / "values.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_a_volume_that_one_node_may_mount_is_given_back_before_an_update_takes_it(render: Render) -> None:
    archive = {"enabled": True, "accessModes": ["ReadWriteOnce"]}
    objects = render({"replicas": 1, "logArchive": archive})
    assert objects["Deployment", NAMESPACE, "tfoperator"]["spec"]["strategy"] == {"type": "Recreate"}
    assert objects["PersistentVolumeClaim", NAMESPACE, "tfoperator-log-archive"]["spec"]["accessModes"] == [
        "ReadWriteOnce"
    ]


def test_an_operator_that_keeps_logs_in_object_storage_may_resolve_its_name(render: Render) -> None:
    objects = render({"logArchive": {"enabled": True, "objectsSecret": "s"}, "networkPolicy": {"egress": True}})
    egress = objects["NetworkPolicy", NAMESPACE, "tfoperator"]["spec"]["egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in egress] == [[443, 6443], [53, 53]]


def test_an_image_may_be_named_by_its_digest(render: Render) -> None:
    digest = f"sha256:{'0123456789abcdef' * 4}"
    objects = render({"image": {"repository": "example.com/tfoperator", "tag": "1.2", "digest": digest}})
    [container] = objects["Deployment", NAMESPACE, "tfoperator"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"example.com/tfoperator:1.2@{digest}"


def test_a_cluster_that_gives_out_user_ids_may_choose_one(render: Render) -> None:
    objects = render({"runAsUser": None, "logArchive": {"enabled": True}})
    pod = objects["Deployment", NAMESPACE, "tfoperator"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


EXPECTED_ELSEWHERE: Json = {
    "commonLabels": {"team": "ml", "cost": "1"},
    "podLabels": {"team": "infra"},
    "deploymentAnnotations": {"example.com/a": "b"},
    "serviceAnnotations": {"example.com/c": "d"},
    "podSecurityContext": {"runAsUser": 1000650000, "supplementalGroups": [5]},
    "securityContext": {"readOnlyRootFilesystem": False},
    "livenessProbe": {"periodSeconds": 20},
    "readinessProbe": {"failureThreshold": 5},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.10"]},
    "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
    "revisionHistoryLimit": 3,
    "terminationGracePeriodSeconds": 60,
    "podDisruptionBudget": {"minAvailable": 1},
    "metrics": {"perJob": True},
}
"""The values that charts of other controllers have, too."""


def test_values_that_people_expect_from_a_chart_reach_their_objects(render: Render) -> None:
    issuer = {"kind": "ClusterIssuer", "name": "company"}
    monitor = {"enabled": True, "labels": {"team": "obs"}, "scrapeTimeout": "10s"}
    drop = {"relabelings": [{"action": "labeldrop", "regex": "pod"}], "metricRelabelings": [{"action": "labelkeep"}]}
    objects = render(
        {
            **EXPECTED_ELSEWHERE,
            "metrics": {"perJob": True, "secure": True, "certManager": True, "issuerRef": issuer},
            "webhook": {"enabled": True, "certManager": True, "issuerRef": issuer},
            "progress": {"enabled": True},
            "monitoring": {**ALL_OF_MONITORING, "serviceMonitor": {**monitor, **drop}},
        },
        tests=True,
    )
    of_kind: dict[str, list[Json]] = {}
    for obj in objects.values():
        of_kind.setdefault(obj["kind"], []).append(obj)
        assert obj["metadata"]["labels"]["cost"] == "1", (obj["kind"], obj["metadata"]["name"])
    assert "Issuer" not in of_kind
    assert [certificate["spec"]["issuerRef"] for certificate in of_kind["Certificate"]] == [issuer, issuer]
    assert [service["metadata"]["annotations"] for service in of_kind["Service"]] == [{"example.com/c": "d"}] * 3
    assert of_kind["PodDisruptionBudget"][0]["spec"].items() >= {"minAvailable": 1}.items()
    assert "maxUnavailable" not in of_kind["PodDisruptionBudget"][0]["spec"]
    (service_monitor,) = of_kind["ServiceMonitor"]
    assert service_monitor["metadata"]["labels"]["team"] == "obs"
    assert service_monitor["spec"]["endpoints"][0].items() >= {"scrapeTimeout": "10s", **drop}.items()

    (deployment,) = of_kind["Deployment"]
    assert deployment["metadata"]["annotations"] == {"example.com/a": "b"}
    spec = deployment["spec"]
    assert (spec["revisionHistoryLimit"], spec["strategy"]) == (3, EXPECTED_ELSEWHERE["strategy"])
    assert spec["template"]["metadata"]["labels"]["team"] == "infra"
    assert not {"team", "cost"} & spec["selector"]["matchLabels"].keys()
    pod = spec["template"]["spec"]
    for name in ("topologySpreadConstraints", "dnsPolicy", "dnsConfig", "terminationGracePeriodSeconds"):
        assert pod[name] == EXPECTED_ELSEWHERE[name]
    # Added members do not replace the chart's own members.
    assert pod["securityContext"] == {
        "fsGroup": 65532,
        "runAsGroup": 65532,
        "runAsNonRoot": True,
        "runAsUser": 1000650000,
        "seccompProfile": {"type": "RuntimeDefault"},
        "supplementalGroups": [5],
    }
    (container,) = pod["containers"]
    assert container["securityContext"].pop("readOnlyRootFilesystem") is False
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert (container["livenessProbe"]["periodSeconds"], container["livenessProbe"]["timeoutSeconds"]) == (20, 5)
    assert (container["readinessProbe"]["failureThreshold"], container["readinessProbe"]["periodSeconds"]) == (5, 5)
    options = parse_options(container["args"], {})
    assert options.shutdown_grace_period == 55
    assert options.metrics_per_job


def test_no_topology_spread_constraint_may_be_wanted(render: Render) -> None:
    objects = render({"topologySpreadConstraints": [], "podDisruptionBudget": {"enabled": False}})
    assert "topologySpreadConstraints" not in objects["Deployment", NAMESPACE, "tfoperator"]["spec"]["template"]["spec"]
    assert "PodDisruptionBudget" not in {kind for kind, *_ in objects}


def test_two_releases_share_no_name_no_lease_and_no_selector(render: Render) -> None:
    values = {"webhook": {"enabled": True}, "crds": {"install": False}}
    blue, green = (render(values, name, "shared") for name in ("blue", "green"))
    assert not set(blue) & set(green)
    arguments = []
    for name, objects in (("blue", blue), ("green", green)):
        deployment = objects["Deployment", "shared", f"{name}-tfoperator"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        others = {"app.kubernetes.io/name": "tfoperator", "app.kubernetes.io/instance": "other"}
        selectors = [obj["spec"]["selector"] for obj in objects.values() if obj["kind"] == "Service"]
        selectors += [
            obj["spec"]["podSelector"]["matchLabels"] for obj in objects.values() if "podSelector" in str(obj)
        ]
        for selector in selectors:
            assert selector.items() <= labels.items()
            assert not selector.items() <= others.items()
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        arguments.append(set(container["args"]))
        rules = [rule for obj in objects.values() for rule in obj.get("rules", ())]
        for resource, flag in (("secrets", "--webhook-secret"), ("leases", "--leader-elect-id")):
            named = [rule["resourceNames"] for rule in rules if resource in rule["resources"] and len(rule) == 4]
            assert len(named) == 1
            assert f"{flag}={named[0][0]}" in container["args"]
    only = {argument.partition("=")[0] for argument in arguments[0] - arguments[1]}
    assert only == {"--leader-elect-id", "--webhook-service", "--webhook-secret"}


def test_the_progress_server_is_called_after_the_release(render: Render) -> None:
    objects = render({"progress": {"enabled": True, "forAllJobs": True}}, "blue")
    (container,) = objects["Deployment", NAMESPACE, "blue-tfoperator"]["spec"]["template"]["spec"]["containers"]
    options = parse_options(container["args"], {})
    assert options.progress_default
    assert ("Service", NAMESPACE, options.progress_service) in objects
    rules = objects["Role", NAMESPACE, "blue-tfoperator-progress"]["rules"]
    assert [rule.get("resourceNames") for rule in rules] == [None, [options.progress_secret]]


def test_the_operator_understands_all_that_values_can_say(render: Render) -> None:
    values = {
        "namespaces": ["a", "b"],
        "logFormat": "text",
        "extraArgs": ["--unique-names"],
        "config": {
            "resync-period": "20s",
            "accelerators": {"nvidia.com/gpu": {"env": [{"name": "A", "value": "b"}]}},
            "scheduling": {"queues": {"default": ["shared"], "namespaces": {"research": ["research"]}}},
        },
        "defaultCleanPodPolicy": "Running",
        "defaultNetwork": "PerReplica",
        "exposedTensorboards": True,
        "gangSchedulerName": "volcano",
        "metrics": {"secure": True, "certManager": True},
        "webhook": {"enabled": True, "certManager": True},
        "logArchive": {"enabled": True, "existingClaim": "logs"},
    }
    objects = render(values, "blue")
    spec = objects["Deployment", NAMESPACE, "blue-tfoperator"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    config = yaml.safe_load(objects["ConfigMap", NAMESPACE, "blue-tfoperator"]["data"]["config.yaml"])
    assert config == values["config"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert (
        set(mounts)
        == {volume["name"] for volume in spec["volumes"]}
        == {"metrics-cert", "webhook-cert", "archive", "config"}
    )
    arguments = dict(argument.partition("=")[::2] for argument in container["args"])
    assert arguments["--config"].startswith(mounts["config"])
    options = parse_options([argument for argument in container["args"] if not argument.startswith("--config")], {})
    assert options.unique_names
    assert options.metrics_cert_dir == mounts["metrics-cert"]
    assert options.leader_elect_id == "blue-tfoperator"
    assert {("Role", "a"), ("Role", "b")} <= {key[:2] for key in objects}


def test_an_api_server_takes_every_object_of_the_chart(
    render: Render, plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """All objects except objects of others' CRDs; unknown fields are refused."""
    values: Json = {**VARIANTS["everything"][2], **EXPECTED_ELSEWHERE, "namespaces": [cluster.namespace]}
    values |= {"monitoring": {"dashboard": {"enabled": True}}, "nodeSelector": {"a": "b"}, "podAnnotations": {"a": "b"}}
    values |= {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "x"}], "priorityClassName": "x"}
    extra = {"volumes": {"emptyDir": {}}, "volumeMounts": {"mountPath": "/x"}, "env": {"value": "text"}}
    values |= {f"extra{name[0].upper()}{name[1:]}": [{"name": "x", **fields}] for name, fields in extra.items()}
    objects = render(values, "dry-run", cluster.namespace, tests=True)
    pod = objects["Deployment", cluster.namespace, "dry-run-tfoperator"]["spec"]["template"]["spec"]
    assert {"name": "x", "emptyDir": {}} in pod["volumes"]
    assert {"name": "x", "mountPath": "/x"} in pod["containers"][0]["volumeMounts"]
    assert pod["containers"][0]["env"] == [{"name": "x", "value": "text"}]
    assert {"Pod", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "CustomResourceDefinition"} <= {
        k for k, *_ in objects
    }
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all(list(objects.values())))
    Kubectl(plane.kubeconfig)(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
        "-f", str(tmp_path / "objects.yaml"),
    )  # fmt: skip
