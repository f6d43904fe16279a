import stat
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.node.expansion import ContainerConfigError, ObjectData
from tfoperator.local.node.volumes import VolumeManager, token_seconds
from tfoperator.local.runtime.protocol import LaunchError

DATA = {("ConfigMap", "settings"): {"a.txt": b"alpha", "b.txt": b"beta"}, ("Secret", "keys"): {"token": b"s3cret"}}


def sources(kind: str, name: str) -> ObjectData | None:
    data = DATA.get((kind, name))
    return None if data is None else ObjectData(data)


def pod_with(*volumes: dict[str, Any], mounts: tuple[dict[str, Any], ...] | None = None) -> Any:
    """A pod whose container has these mounts; by default it mounts each volume."""
    if mounts is None:
        mounts = tuple({"name": volume["name"], "mountPath": f"/v/{volume['name']}"} for volume in volumes)
    limits = {"limits": {"memory": "2Gi"}}
    return view(manifest("p", container(volumeMounts=list(mounts), resources=limits), volumes=list(volumes)))


@pytest.fixture
def manager(tmp_path: Path) -> VolumeManager:
    return VolumeManager(tmp_path / "volumes")


@pytest.mark.parametrize("source", [{"emptyDir": {}}, {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
def test_an_empty_dir_lives_as_long_as_its_pod(manager: VolumeManager, tmp_path: Path, source: dict[str, Any]) -> None:
    pod = pod_with({"name": "scratch", **source})
    path = manager.prepare(pod, sources)["scratch"]
    (path / "x").write_text("kept over a restart of the container")
    assert (manager.prepare(pod, sources)["scratch"] / "x").exists()
    other = pod_with({"name": "scratch", **source})
    assert manager.prepare(other, sources)["scratch"] != path
    manager.remove(pod)
    assert not path.exists()
    manager.close()
    assert path.parents[1].exists(), "the other pod's volumes stay"
    manager.remove(other)
    manager.close()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_is_one_directory_for_all_pods_and_outlives_them_as_all_volumes_do_when_asked_for(
    manager: VolumeManager, tmp_path: Path
) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
    first, second = pod_with(volume), pod_with(volume)
    path = manager.prepare(first, sources)["data"]
    assert manager.prepare(second, sources)["data"] == path
    keeping, scratch = VolumeManager(tmp_path / "kept", keep=True), pod_with({"name": "v", "emptyDir": {}})
    kept = keeping.prepare(scratch, sources)["v"]
    manager.remove(first)
    keeping.remove(scratch)
    assert (path.is_dir(), kept.is_dir()) == (True, True)


def test_config_maps_and_secrets_become_files_with_sensible_modes_and_a_host_path_is_the_path_itself(
    manager: VolumeManager, tmp_path: Path
) -> None:
    pod = pod_with(
        {"name": "c", "configMap": {"name": "settings"}},
        {"name": "s", "secret": {"secretName": "keys", "items": [{"key": "token", "path": "deep/t", "mode": 0o400}]}},
        {"name": "t", "secret": {"secretName": "keys"}},
        {"name": "none", "configMap": {"name": "none", "optional": True}},
        {"name": "h", "hostPath": {"path": str(tmp_path / "new"), "type": "DirectoryOrCreate"}},
    )
    made = manager.prepare(pod, sources)
    assert (made["c"] / "b.txt").read_text() == "beta"
    assert (made["s"] / "deep/t").read_bytes() == b"s3cret"
    assert stat.S_IMODE((made["s"] / "deep/t").stat().st_mode) == 0o400
    assert stat.S_IMODE((made["t"] / "token").stat().st_mode) == 0o600
    assert list(made["none"].iterdir()) == []
    assert made["h"] == tmp_path / "new"
    assert made["h"].is_dir()


def test_a_projected_volume_holds_all_its_sources(manager: VolumeManager) -> None:
    fields = {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    settings = {"name": "settings", "items": [{"key": "a.txt", "path": "a"}]}
    parts = [{"configMap": settings}, {"secret": {"name": "keys"}}, {"downwardAPI": fields}]
    path = manager.prepare(pod_with({"name": "all", "projected": {"sources": parts}}), sources)["all"]
    assert sorted(p.name for p in path.iterdir()) == ["a", "labels", "token"]
    assert 'role="worker"' in (path / "labels").read_text()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_projected_volume_and_a_downward_volume_give_their_files_their_default_mode(tmp_path: Path) -> None:
    fields = [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
    chosen = {"name": "keys", "items": [{"key": "token", "path": "t", "mode": 0o400}]}
    parts = [{"configMap": {"name": "settings"}}, {"secret": chosen}, {"downwardAPI": {"items": fields}}]
    manager = VolumeManager(tmp_path / "volumes", mounted=True)
    made = manager.prepare(
        pod_with(
            {"name": "all", "projected": {"defaultMode": 0o755, "sources": parts}},
            {"name": "fields", "downwardAPI": {"defaultMode": 0o440, "items": fields}},
        ),
        sources,
    )
    modes = {path.name: mode_of(path) for path in made["all"].iterdir()}
    assert modes == {"a.txt": 0o755, "b.txt": 0o755, "t": 0o400, "name": 0o755}
    assert mode_of(made["fields"] / "name") == 0o440


def test_a_downward_volume_has_limits_and_requests(manager: VolumeManager) -> None:
    items = [
        {"path": name, "resourceFieldRef": {"containerName": "tensorflow", "resource": resource, "divisor": "1Mi"}}
        for name, resource in (("limit", "limits.memory"), ("request", "requests.memory"))
    ]
    path = manager.prepare(pod_with({"name": "v", "downwardAPI": {"items": items}}), sources)["v"]
    assert [(path / name).read_text() for name in ("limit", "request")] == ["2048", "0"]


def test_volumes_that_no_container_mounts_are_ignored_as_with_a_kubelet(manager: VolumeManager) -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    pod = pod_with(
        {"name": "server", "nfs": {"server": "x", "path": "/"}},
        {"name": "missing", "configMap": {"name": "none"}},
        {"name": "token", "projected": {"sources": [token]}},
        {"name": "used", "emptyDir": {}},
        mounts=({"name": "used", "mountPath": "/used"},),
    )
    assert list(manager.prepare(pod, sources)) == ["used"]
    assert token_seconds(pod) is None


@pytest.mark.parametrize("kind", ["Directory", "DirectoryOrCreate", "Socket", "CharDevice", "BlockDevice"])
def test_a_host_path_must_be_of_its_type(manager: VolumeManager, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ContainerConfigError, match=f"hostPath {file} is not a "):
        manager.prepare(pod_with({"name": "v", "hostPath": {"path": str(file), "type": kind}}), sources)
    for right in ("File", "FileOrCreate", ""):
        assert manager.prepare(pod_with({"name": "v", "hostPath": {"path": str(file), "type": right}}), sources)


def test_a_token_is_asked_for_at_each_filling_and_a_projection_without_tokens_is_refused(
    manager: VolumeManager,
) -> None:
    token = {"audience": "mine", "expirationSeconds": 900, "path": "token"}
    pod = pod_with({"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}})
    asked = list[tuple[str, int]]()

    def tokens(audience: str, seconds: int) -> str:
        asked.append((audience, seconds))
        return f"token {len(asked)}"

    for number in (1, 2):
        made = manager.prepare(pod, sources, tokens)["t"]
        assert (made / "token").read_text() == f"token {number}"
    assert asked == [("mine", 900)] * 2
    assert token_seconds(pod) == 900
    assert token_seconds(pod_with({"name": "e", "emptyDir": {}})) is None
    with pytest.raises(LaunchError, match="tokens"):
        manager.prepare(pod, sources)


@pytest.mark.parametrize(
    ("volume", "error", "words"),
    [
        ({"configMap": {"name": "none"}}, ContainerConfigError, "ConfigMap 'none' not found"),
        ({"hostPath": {"path": "/no/such", "type": "Directory"}}, ContainerConfigError, "/no/such does not exist"),
        ({"hostPath": {"path": "/", "type": "FileOrCreate"}}, ContainerConfigError, "hostPath / is not a file"),
        ({"hostPath": {"path": "/dev/zero", "type": "File"}}, ContainerConfigError, "hostPath /dev/zero is not a file"),
        ({"downwardAPI": {"items": [{"path": "x"}]}}, LaunchError, "'x' has neither fieldRef nor resourceFieldRef"),
        (
            {"downwardAPI": {"items": [{"path": "x", "resourceFieldRef": {"resource": "n"}}]}},
            LaunchError,
            "must be lim",
        ),
        ({"nfs": {"server": "x", "path": "/"}}, LaunchError, "volume 'v' has a kind"),
        ({"persistentVolumeClaim": {"claimName": "../../out"}}, LaunchError, "'../../out' is not a valid name"),
        ({"persistentVolumeClaim": {"claimName": ".."}}, LaunchError, "'..' is not a valid name"),
        ({"persistentVolumeClaim": {"claimName": "a\0"}}, LaunchError, "is not a valid name of a claim"),
        ({"persistentVolumeClaim": {}}, LaunchError, "'' is not a valid name"),
        ({"configMap": {"name": "settings", "items": [{"key": "a.txt", "path": "../out"}]}}, LaunchError, "is outside"),
    ],
)
def test_what_cannot_be_had_is_refused(
    tmp_path: Path, volume: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        VolumeManager(tmp_path / "run/volumes", mounted=True).prepare(pod_with({"name": "v", **volume}), sources)
    assert [path.name for path in tmp_path.iterdir()] in ([], ["run"])
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert list((tmp_path / "run/volumes").glob("claims/*")) == []


def test_only_the_owner_of_a_process_can_read_what_a_volume_says_and_any_user_of_a_container(tmp_path: Path) -> None:
    secret = {"secretName": "keys", "defaultMode": 0o644, "items": [{"key": "token", "path": "t", "mode": 0o755}]}
    pod = pod_with({"name": "s", "secret": secret}, {"name": "c", "configMap": {"name": "settings"}})
    for mounted, modes in ((False, (0o700, 0o600)), (True, (0o755, 0o644))):
        root = tmp_path / f"volumes-{mounted}"
        made = VolumeManager(root, mounted=mounted).prepare(pod, sources)
        files = (made["s"] / "t", made["c"] / "a.txt")
        assert tuple(stat.S_IMODE(path.stat().st_mode) for path in files) == modes
        assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_mount_may_show_a_part_of_a_volume_that_there_is(manager: VolumeManager) -> None:
    parts = {"c": "a.txt", "e": "new/dir"}
    mounts = tuple({"name": name, "mountPath": f"/mnt/{name}", "subPath": part} for name, part in parts.items())
    pod = pod_with({"name": "c", "configMap": {"name": "settings"}}, {"name": "e", "emptyDir": {}}, mounts=mounts)
    file, directory = manager.mounts(pod, pod.spec.containers[0], manager.prepare(pod, sources), {})
    assert file.source.read_text() == "alpha"
    assert directory.source.is_dir()
    with pytest.raises(LaunchError, match="'c'"):
        manager.mounts(pod, pod.spec.containers[0], {}, {})


def test_each_pod_may_have_its_own_part_of_a_claim_by_a_variable(manager: VolumeManager) -> None:
    mount = {"name": "e", "mountPath": "/data", "subPathExpr": "logs/$(POD_NAME)"}
    pod = pod_with({"name": "e", "persistentVolumeClaim": {"claimName": "shared"}}, mounts=(mount,))
    volumes, container = manager.prepare(pod, sources), pod.spec.containers[0]
    first, second = (manager.mounts(pod, container, volumes, {"POD_NAME": name})[0] for name in ("a", "b"))
    assert (first.source, second.source) == (volumes["e"] / "logs/a", volumes["e"] / "logs/b")
    assert first.source.is_dir()
    with pytest.raises(ContainerConfigError, match="uses the variable POD_NAME, which the container does not have"):
        manager.mounts(pod, container, volumes, {})
    with pytest.raises(LaunchError, match="subPath 'logs/\\.\\./\\.\\.' is outside of its volume"):
        manager.mounts(pod, container, volumes, {"POD_NAME": "../.."})


def test_files_are_not_written_nor_a_part_of_a_volume_looked_for_through_a_link(
    manager: VolumeManager, tmp_path: Path
) -> None:
    items = [{"key": "a.txt", "path": "deep/a.txt"}]
    pod = pod_with({"name": "c", "configMap": {"name": "settings", "items": items}})
    made = manager.prepare(pod, sources)["c"]
    (made / "deep").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/a.txt").write_text("mine")
    (made / "deep").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LaunchError, match="volume 'c': path 'deep' contains a symbolic link"):
        manager.prepare(pod, sources)
    assert (tmp_path / "elsewhere/a.txt").read_text() == "mine"
    mount = {"name": "e", "mountPath": "/data", "subPath": "link/new"}
    pod = pod_with({"name": "e", "emptyDir": {}}, mounts=(mount,))
    volumes = manager.prepare(pod, sources)
    (volumes["e"] / "link").symlink_to(tmp_path)
    with pytest.raises(LaunchError, match="container 'tensorflow': subPath 'link/new' contains a symbolic link"):
        manager.mounts(pod, pod.spec.containers[0], volumes, {})
    assert not (tmp_path / "new").exists()
