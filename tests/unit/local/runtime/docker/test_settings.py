from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.runtime.docker.settings import (
    check_privileges,
    container_settings,
    host_settings,
    published_ports,
)
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, LocalPod, Mount


def pod(*, spec: dict[str, Any] | None = None, **fields: Any) -> LocalPod:
    return view(manifest("p", container(image="image:1", **fields), **(spec or {})))


def run(of: LocalPod | None = None, **more: Any) -> ContainerStart:
    of = of or pod()
    defaults: dict[str, Any] = {"command": (), "environment": {}, "mounts": (), "log": LogFile(Path("0.log"))}
    return ContainerStart(pod=of, container=of.spec.containers[0], **{**defaults, **more})


def test_a_command_replaces_entry_point_and_arguments_and_arguments_only_the_latter() -> None:
    both = container_settings(
        run(pod(workingDir="/app"), command=("x", "y"), environment={"A": "b=c"}), {"mine": "yes"}
    )
    passed = {"image": "image:1", "environment": ["A=b=c"], "working_dir": "/app", "labels": {"mine": "yes"}}
    assert both.items() >= (passed | {"entrypoint": ["x", "y"]}).items()
    assert "command" not in both
    arguments = container_settings(run(args=("--steps", "3")), {})
    assert (arguments["command"], "entrypoint" in arguments) == (["--steps", "3"], False)
    assert not {"command", "entrypoint", "working_dir", "user"} & set(container_settings(run(), {}))


@pytest.mark.parametrize(
    ("of_container", "of_pod", "user"),
    [
        ({"runAsUser": 5}, {}, "5"),
        ({}, {"runAsUser": 6, "runAsGroup": 7}, "6:7"),
        ({"runAsUser": 0}, {"runAsUser": 6}, "0"),
        ({"runAsGroup": 8}, {"runAsUser": 6, "runAsGroup": 7}, "6:8"),
        ({"runAsGroup": 8}, {}, "0:8"),
        ({}, {}, None),
    ],
)
def test_a_container_says_who_it_runs_as_or_its_pod_does(
    of_container: dict[str, int], of_pod: dict[str, int], user: str | None
) -> None:
    local_pod = pod(securityContext=of_container, spec={"securityContext": of_pod})
    assert container_settings(run(local_pod), {}).get("user") == user


def test_limits_are_those_of_kubernetes_as_far_as_the_engine_has_them_and_brought_into_its_range() -> None:
    resources = {"limits": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}, "requests": {"cpu": "250m"}}
    settings = host_settings(run(pod(resources=resources)), "box", 8)
    assert settings["mem_limit"] == settings["memswap_limit"] == 1 << 30
    assert settings["nano_cpus"] == 1_500_000_000
    assert settings["cpu_shares"] == 256
    [request] = settings["device_requests"]
    assert (request["Count"], request["Capabilities"]) == (2, [["gpu"]])
    assert not {"mem_limit", "nano_cpus", "cpu_shares", "device_requests"} & set(host_settings(run(), "box", 2))
    resources = {"limits": {"cpu": 64, "memory": "1Mi"}, "requests": {"cpu": "1m"}}
    settings = host_settings(run(pod(resources=resources)), "box", 2)
    assert (settings["nano_cpus"], settings["mem_limit"], settings["cpu_shares"]) == (2_000_000_000, 6 << 20, 2)
    with pytest.raises(LaunchError, match="'tensorflow': resources: must be a quantity"):
        host_settings(run(pod(resources={"limits": {"memory": "much"}})), "box", 2)


def test_mounts_and_the_namespaces_of_the_sandbox_are_shared() -> None:
    mounts = (Mount("a", Path("/x"), "/a"), Mount("b", Path("/y"), "/b", read_only=True))
    settings = host_settings(run(mounts=mounts), "box", 2)
    assert settings["network_mode"] == settings["ipc_mode"] == "container:box"
    made = [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in settings["mounts"]]
    assert made == [("/x", "/a", False), ("/y", "/b", True)]


def test_rights_are_those_of_the_security_contexts() -> None:
    context = {"privileged": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}
    context["capabilities"] = {"add": ["NET_ADMIN"], "drop": ["ALL"]}
    groups = {"fsGroup": 3, "supplementalGroups": [1, 2]}
    settings = host_settings(run(pod(securityContext=context, spec={"securityContext": groups})), "box", 2)
    assert (settings["privileged"], settings["read_only"]) == (True, True)
    assert (settings["cap_add"], settings["cap_drop"]) == (["NET_ADMIN"], ["ALL"])
    assert "security_opt" not in settings, "a privileged container has them"
    assert settings["group_add"] == [1, 2, 3]
    plain = host_settings(run(), "box", 2)
    assert (plain["privileged"], plain["read_only"], plain["group_add"]) == (False, False, None)
    assert not {"cap_add", "cap_drop"} & set(plain)
    assert plain["security_opt"] == ["no-new-privileges"], "and no word on seccomp: the engine has a profile"
    assert plain["pids_limit"] == 4096
    explicit = pod(securityContext={"allowPrivilegeEscalation": True})
    assert "security_opt" not in host_settings(run(explicit), "box", 2)


def test_only_ports_that_are_wanted_on_this_machine_are_published_and_on_loopback() -> None:
    ports = [
        {"containerPort": 2222},
        {"containerPort": 6006, "hostPort": 26006},
        {"containerPort": 53, "hostPort": 5353, "hostIP": "0.0.0.0", "protocol": "UDP"},
    ]
    exposed, published = published_ports(pod(ports=ports))
    assert exposed == [(6006, "tcp"), (53, "udp")]
    assert published == {"6006/tcp": ("127.0.0.1", 26006), "53/udp": ("0.0.0.0", 5353)}


def test_a_container_is_given_its_own_devices_where_they_are_known() -> None:
    local_pod = pod(resources={"limits": {"nvidia.com/gpu": 2}})
    [request] = host_settings(run(local_pod, gpus=("GPU-a", "GPU-b")), "box", 2)["device_requests"]
    assert (request["DeviceIDs"], request["Count"], request["Capabilities"]) == (["GPU-a", "GPU-b"], 0, [["gpu"]])
    assert "device_requests" not in host_settings(run(local_pod, gpus=()), "box", 2)
    assert "device_requests" not in host_settings(run(local_pod), "box", 2, gpus=False)


def check(context: dict[str, Any] | None = None, **spec: Any) -> None:
    pod = view(manifest("p", container(securityContext=context or {}), **spec))
    check_privileges(pod, pod.spec.containers[0])


@pytest.mark.parametrize(
    ("context", "spec", "words"),
    [
        ({"privileged": True}, {}, "securityContext.privileged"),
        ({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}}, {}, "securityContext.capabilities.add SYS_ADMIN"),
        ({"capabilities": {"add": ["cap_sys_ptrace"], "drop": ["ALL"]}}, {}, "cap_sys_ptrace"),
        ({"capabilities": {"add": ["ALL"]}}, {}, "securityContext.capabilities.add ALL"),
        ({}, {"hostNetwork": True}, "hostNetwork"),
        ({}, {"volumes": [{"name": "v", "hostPath": {"path": "/etc"}}]}, "volume 'v' with hostPath /etc"),
    ],
)
def test_power_over_the_machine_needs_the_flag(context: dict[str, Any], spec: dict[str, Any], words: str) -> None:
    with pytest.raises(LaunchError, match="container 'tensorflow' would have access") as caught:
        check(context, **spec)
    assert words in str(caught.value)
    assert "--allow-privileged" in str(caught.value)
    assert caught.value.exit_code == 126


def test_what_stays_in_the_container_does_not() -> None:
    context = {"privileged": False, "runAsUser": 0, "allowPrivilegeEscalation": True}
    check({**context, "capabilities": {"add": ["CAP_NET_RAW", "chown"]}}, volumes=[{"name": "v", "emptyDir": {}}])
    check()
