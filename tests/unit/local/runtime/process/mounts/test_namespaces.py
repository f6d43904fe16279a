"""Containers with mount namespaces, as the kernel makes them, for root and for an ordinary user."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.machines import AS_ORDINARY_USER, ORDINARY_USER, WITHOUT_NAMESPACES, folder_for_all, is_root
from tests.unit.local.node.pods import python
from tests.unit.local.runtime.process.test_runtime import Bench
from tfoperator.local.runtime.process.container_main import COMMAND, decode, encode
from tfoperator.local.runtime.protocol import LaunchError, Mount
from tfoperator.progress.stacks import STACKS_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has mount namespaces")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    if os.geteuid() != 0 and bench.runtime._namespaces.refusal:
        bench.runtime.stop()
        pytest.skip(f"this machine permits no namespaces to ordinary users: {bench.runtime._namespaces.refusal}")
    yield bench
    bench.runtime.stop()


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "x").write_text("content")
    return volume


def test_mounts_travel_as_arguments() -> None:
    mirrors, binds, command = ["/", "/opt"], [("/v/a", "/data", False), ("/v/b", "/data/sub", True)], ["echo", "rw"]
    assert decode([*encode(mirrors, binds), *command]) == (mirrors, binds, command)
    assert decode([*encode([], []), *command]) == ([], [], command)


def test_a_container_sees_its_volumes_and_the_machine_does_not_change(bench: Bench, volume: Path) -> None:
    before = sorted(os.listdir("/")), sorted(os.listdir("/opt"))
    mounts = (Mount("a", volume, "/no-such-tfo/deep"), Mount("b", volume, "/opt/no-such-tfo"))
    output = bench.run(
        ["sh", "-c", "cat /no-such-tfo/deep/x /opt/no-such-tfo/x; touch /opt/no-such-tfo/y"], mounts=mounts
    )
    assert output == "contentcontent"
    assert (volume / "y").exists()
    assert (sorted(os.listdir("/")), sorted(os.listdir("/opt"))) == before


def test_two_containers_have_different_volumes_at_one_path_at_the_same_time(bench: Bench, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(f"{name}\n")
        mount = Mount("v", tmp_path / name, "/no-such-tfo")
        bench.launch(["sh", "-c", "cat /no-such-tfo/who; while test ! -e go; do sleep 0.02; done"], mounts=(mount,))
        eventually(lambda name=name: bench.output().endswith(f"{name}\n"))
    (bench.work_dir / "go").touch()
    assert [bench.codes.get(timeout=60), bench.codes.get(timeout=60)] == [0, 0]


def test_a_volume_at_tmp_replaces_it_and_the_programs_folder_stays_where_it_is(bench: Bench, volume: Path) -> None:
    code = "import os, tempfile as t, multiprocessing.connection as c; l = c.Listener(family='AF_UNIX')\n"
    code += "print(t.gettempdir(), os.path.exists('/tmp/x'), os.getcwd(), os.listdir(os.environ['TFOPERATOR_MOUNT_V']))"
    folder, there, directory, _, *listed = bench.run(python(code), mounts=(Mount("v", volume, "/tmp"),)).split()[:5]
    assert (folder, there, directory) == ("/tmp", "True", str(bench.work_dir)), listed


def test_only_what_may_be_written_is_written(bench: Bench, volume: Path) -> None:
    mounts = (Mount("v", volume, "/no-such-tfo", read_only=True), Mount("w", volume, "/no-such-tfo-2"))
    script = "touch /no-such-tfo/y || echo refused; touch /no-such-tfo-2/y && ls /no-such-tfo"
    *_, refused, first, second = bench.run(["sh", "-c", script], mounts=mounts).splitlines()
    assert (refused, first, second) == ("refused", "x", "y")


def test_a_volumes_part_and_a_file_are_mounted_and_a_mount_point_within_a_volume_stays_in_it(
    bench: Bench, volume: Path, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "z").touch()
    mounts = (
        Mount("in", inner, "/no-such-tfo/deep/in"),
        Mount("out", volume, "/no-such-tfo"),
        Mount("file", volume / "x", "/etc/no-such-tfo.yaml", volume=volume),
    )
    script = "ls /no-such-tfo/deep/in; cat /etc/no-such-tfo.yaml"
    assert bench.run(["sh", "-c", script], mounts=mounts) == "z\ncontent"
    assert list((volume / "deep" / "in").iterdir()) == []


def test_a_mount_point_in_a_persons_folder_goes_with_the_pod(bench: Bench, volume: Path) -> None:
    at = bench.work_dir / "data" / "set"
    script = f"cat {at}/x; touch {at}/y {bench.work_dir}/result"
    assert bench.run(["sh", "-c", script], mounts=(Mount("v", volume, str(at)),)) == "content"
    assert list(at.iterdir()) == []
    bench.runtime.release_pod(bench.pod)
    assert [path.name for path in bench.work_dir.iterdir()] == ["result"]


def test_programs_and_the_working_directory_are_found_in_volumes(bench: Bench, volume: Path) -> None:
    tool = volume / "tool"
    tool.write_text("#!/bin/sh\npwd\n")
    mounts = (Mount("v", volume, "/no-such-tfo"),)
    with pytest.raises(LaunchError, match="'/no-such-tfo/tool' is not executable") as error:
        bench.launch(["/no-such-tfo/tool"], mounts=mounts)
    assert error.value.exit_code == 126
    tool.chmod(0o755)
    assert bench.run(["/no-such-tfo/tool"], mounts=mounts) == f"{bench.work_dir}\n"
    assert bench.run(["./tool"], mounts=mounts, workingDir="/no-such-tfo") == "/no-such-tfo\n"
    assert bench.run(["tool"], {"PATH": f"/no-such-tfo:{os.environ['PATH']}"}, mounts=mounts) == f"{bench.work_dir}\n"
    assert bench.warnings == []
    assert bench.run(["/no-such-tfo/tool"], mounts=mounts, workingDir="/nowhere-tfo") == f"{bench.work_dir}\n"
    assert bench.warnings == ["WorkingDirMissing"]
    tool.write_text("no program")
    with pytest.raises(LaunchError, match=r"can't start '/no-such-tfo/tool' in .*: Exec format error") as error:
        bench.launch(["/no-such-tfo/tool"], mounts=mounts)
    assert error.value.exit_code == 127


@pytest.mark.parametrize(
    ("command", "words"),
    [(["no-such-program"], "'no-such-program' not found on PATH"), (["echo", "a\0b"], "can't start 'echo'")],
)
def test_a_program_that_cannot_be_started_says_why(bench: Bench, volume: Path, command: list[str], words: str) -> None:
    with pytest.raises(LaunchError, match=words) as error:
        bench.launch(command, mounts=(Mount("v", volume, "/no-such-tfo"),))
    assert error.value.exit_code == 127


def test_environment_signals_and_descriptors_are_as_without_a_namespace(bench: Bench, volume: Path) -> None:
    code = "import os, signal; print(sorted((k, v) for k, v in os.environ.items() if k not in ('A', 'B')),"
    code += "sorted(os.listdir('/proc/self/fd')), open('/proc/self/status').read().split('SigIgn:')[1].split()[0],"
    code += "os.getpid() == os.getpgid(0) == os.getsid(0))"
    names = ("TFOPERATOR_CONTAINER", STACKS_VARIABLE, "TFOPERATOR_MOUNT_V")
    command = ["env", *(f"--unset={name}" for name in names), "python", "-S", "-c", code]
    plain = bench.run(command, {"LC_ALL": "C"})
    in_namespace = bench.run(command, {"LC_ALL": "C"}, mounts=(Mount("v", volume, "/no-such-tfo"),))
    assert in_namespace == plain


def test_a_container_in_a_namespace_is_ended_and_looked_at_like_any_other(bench: Bench, volume: Path) -> None:
    code = "import time; from tfoperator.progress.stacks import register; register(); print('up', flush=True)\n"
    code += "def wait_here(): time.sleep(60)\nwait_here()"
    process = bench.launch(["python", "-c", code], mounts=(Mount("v", volume, "/no-such-tfo"),))
    eventually(lambda: bench.output() == "up\n")
    assert "wait_here" in process.stacks()
    assert bench.runtime.measure()[0].attempt == str(process.pid)
    process.terminate()
    assert bench.codes.get(timeout=60) == 128 + signal.SIGTERM


def test_a_command_beside_a_container_sees_the_containers_volumes(bench: Bench, volume: Path) -> None:
    bench.launch(["sleep", "60"], mounts=(Mount("v", volume, "/no-such-tfo"),), workingDir="/no-such-tfo")

    def beside(*command: str) -> subprocess.CompletedProcess[str]:
        launch = bench.runtime.beside(bench.pod, "tensorflow", command)
        return subprocess.run(
            launch.command, executable=launch.program, cwd=launch.directory, env=launch.environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert beside("sh", "-c", "cat x; pwd; exit 3").stdout == "content/no-such-tfo\n"
    assert beside("sh", "-c", "exit 3").returncode == 3
    missing = beside("no-such-program")
    assert (missing.returncode, missing.stderr.startswith("program 'no-such-program' not found on PATH")) == (127, True)


def test_a_machine_that_forbids_namespaces_is_noticed() -> None:
    done = subprocess.run(
        [*WITHOUT_NAMESPACES, *COMMAND, "probe"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.startswith("unshare: ")) == (1, True), done


@pytest.mark.skipif(not is_root(), reason="the other tests here are run by an ordinary user")
def test_an_ordinary_user_has_volumes_and_keeps_its_ids_without_a_right_over_the_machine() -> None:
    script = "id -u; id -g; touch /no-such-tfo/x /opt/no-such-tfo/y; grep CapEff /proc/self/status; unshare -Ur id -u"
    with folder_for_all() as volume:
        binds = [(str(volume), "/no-such-tfo", False), (str(volume), "/opt/no-such-tfo", False)]
        run = [*COMMAND, "run", "2", "", "/", *encode(["/", "/opt"], binds), "sh", "-c", script]
        done = subprocess.run([*AS_ORDINARY_USER, *run], capture_output=True, text=True, timeout=60, check=False)
        *_, rights, nested = done.stdout.split()
        assert (done.stdout.split()[:2], int(rights, 16), nested) == ([str(ORDINARY_USER)] * 2, 0, "0"), done
        assert {path.name: path.stat().st_uid for path in volume.iterdir()} == {"x": ORDINARY_USER, "y": ORDINARY_USER}
