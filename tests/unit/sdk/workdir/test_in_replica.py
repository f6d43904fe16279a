"""The program that runs in a replica, as a process of its own: it does not use the package that has its text."""

import gzip
import hashlib
import inspect
import io
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator import progress
from tfoperator.sdk.workdir import in_replica
from tfoperator.sdk.workdir.packing import pack

SCRIPT = inspect.getsource(in_replica)


class Replica:
    """The volumes of a pod."""

    def __init__(self, folder: Path) -> None:
        self.source, self.place = folder / "source", folder / "place"
        for made in (self.source, self.place):
            made.mkdir(parents=True)
        self.folder = self.place / "folder"

    def start(
        self,
        content: bytes,
        *command: str,
        digest: str = "",
        requirements: str = "",
        script: str = SCRIPT,
        python: Sequence[str] = (sys.executable,),
    ) -> subprocess.Popen[str]:
        place = "TFOPERATOR_MOUNT_TFOPERATOR_WORKDIR"
        variables = {**os.environ, f"{place}_SOURCE": str(self.source), place: str(self.place)}
        words = [digest or hashlib.sha256(content).hexdigest(), str(len(content)), requirements, *command]
        streams: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*python, "-c", script, *words], env=variables, text=True, **streams)

    def run(self, content: bytes, *command: str, **options: Any) -> tuple[int, str, str]:
        (self.source / "archive").write_bytes(content)
        return ended(self.start(content, *command, **options))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(tmp_path / "pod")


@pytest.fixture
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def contents(folder: Path) -> dict[bytes, bytes | str]:
    top = os.fsencode(folder)
    entries: dict[bytes, bytes | str] = {}
    for place, folders, files in os.walk(top):
        for path in (os.path.join(place, name) for name in (*files, *folders)):
            if os.path.islink(path):
                entries[os.path.relpath(path, top)] = os.readlink(os.fsdecode(path))
            elif os.path.isfile(path):
                entries[os.path.relpath(path, top)] = Path(os.fsdecode(path)).read_bytes()
    return entries


HOSTILE = (
    b"-rf", b"a\nb", b"\xff\xfe.py", b"$(touch x)", b"`id`", "ü".encode(), b" ", b"...", b"d" * 120 + b"/" + b"f" * 200,
)  # fmt: skip


def test_hostile_names_arrive_byte_by_byte(replica: Replica, work: Path) -> None:
    for number, name in enumerate(HOSTILE):
        path = os.path.join(os.fsencode(work), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(bytes([number]) * number)
    os.symlink("-rf", work / "link")
    package = pack(work)
    assert len(package.names) == len(HOSTILE) + 1
    assert replica.run(package.content, "true") == (0, "", "")
    assert contents(replica.folder) == contents(work)
    assert sorted(os.listdir(replica.place)) == ["folder", "own-packages"]


def test_the_program_is_the_process_in_its_folder(replica: Replica, work: Path) -> None:
    (work / "own.py").write_text("NAME = 'own'\n")
    (work / "sub").mkdir()
    (work / "sub/train.py").write_text(
        "import os, own, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print(own.NAME, os.getpid(), os.getcwd(), sys.argv[1:], flush=True)\n"
        "time.sleep(60)\n"
    )
    content = pack(work).content
    (replica.source / "archive").write_bytes(content)
    process = replica.start(content, "python3", "sub/train.py", "--x", "$(A) b")
    assert process.stdout.readline() == f"own {process.pid} {replica.folder} ['--x', '$(A) b']\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 7


def test_a_program_can_report_where_the_image_has_nothing_of_ours(replica: Replica, work: Path) -> None:
    (work / "train.py").write_text("from tfoperator import progress as ours; print(ours.__file__, ours.Progress(2))")
    bare = (sys.executable, "-S")  # without what is installed
    own = replica.place / "own-packages/tfoperator"
    for _ in range(2):
        code, out, err = replica.run(pack(work).content, *bare, "train.py", python=bare)
        assert (code, out.split()[0]) == (0, f"{own}/progress/__init__.py"), err
    assert contents(replica.folder) == contents(work)
    assert replica.run(pack(work).content, sys.executable, "train.py")[1].split()[0] == progress.__file__
    (work / "tfoperator").mkdir()
    (work / "tfoperator/progress.py").write_text("def Progress(total):\n    print(total)\n    raise SystemExit\n")
    assert replica.run(pack(work).content, *bare, "train.py", python=bare)[1] == "2\n", "the folder's own goes first"


def test_programs_get_the_signals_that_python_ignores(replica: Replica, work: Path) -> None:
    (work / "a").touch()
    code, out, _ = replica.run(pack(work).content, "grep", "SigIgn", "/proc/self/status")
    ignored = int(out.split()[1], 16)  # a shell may have others ignored
    assert (code, ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)) == (0, 0)


def test_each_start_has_the_same_bytes(replica: Replica, work: Path) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    assert replica.run(content, "sh", "-c", "echo 2 > a.py; mkdir b; touch b/c")[0] == 0
    (replica.place / "incomplete").mkdir()  # by a start that was killed
    (replica.place / "incomplete/half").touch()
    assert replica.run(content, "true")[0] == 0
    assert contents(replica.folder) == {b"a.py": b"1"}


def archive_of(*members: tarfile.TarInfo) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return written.getvalue()


def test_other_bytes_than_were_sent_start_nothing(replica: Replica, work: Path, tmp_path: Path) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    ran = ("touch", str(tmp_path / "ran"))
    code, _, err = replica.run(content[:-1] + b"!", *ran, digest=hashlib.sha256(content).hexdigest())
    assert code == 1
    assert err == "tfoperator: the hash of the received folder differs from the hash of the folder that was sent\n"
    for name in ("../outside", "a/../../outside", "/tmp/outside"):
        outside = tarfile.TarInfo(name)
        outside.size = 1
        code, _, err = replica.run(archive_of(tarfile.TarInfo("b.py"), outside), *ran)
        assert code == 1
        assert err == f"tfoperator: the folder contains a file {name!r}, whose path is outside of the folder\n"
    code, _, err = replica.run(content, "no-such-program")
    assert (code, "no-such-program" in err) == (1, True)
    assert not (tmp_path / "ran").exists()
    assert not (replica.place / "outside").exists()
    assert contents(replica.folder) == {b"a.py": b"1"}


def wheel(folder: Path, name: str) -> str:
    path, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "VALUE = 'installed'\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    return path.name


def test_pip_installs_beside_what_is_there(replica: Replica, work: Path) -> None:
    name = wheel(work, "only_of_this_replica")
    (work / "needs.txt").write_text(f"./{name}\nmsgspec\n")
    package = pack(work)
    say = "import only_of_this_replica as o, msgspec; print(o.VALUE, msgspec.__file__)"
    code, out, err = replica.run(package.content, "python", "-c", say, requirements="needs.txt")
    assert code == 0, err
    import msgspec

    assert out == f"installed {msgspec.__file__}\n"
    (work / "needs.txt").write_text("./missing.whl\n")
    code, out, err = replica.run(pack(work).content, "echo", "started", requirements="needs.txt")
    assert (code, out) == (1, "")
    assert "missing.whl" in err
    assert err.endswith("tfoperator: pip can't install needs.txt (exit code 1); see the output of pip above\n")


class Store:
    """Gives its answers in their order, and then the last answer for ever."""

    def __init__(self) -> None:
        self.answers: tuple[tuple[int, bytes], ...] = ()
        self.asked = 0

    def __call__(self, exchange: Exchange) -> None:
        code, body = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        exchange.respond(code, body)


@pytest.fixture
def store(replica: Replica) -> Iterator[Store]:
    served_store = Store()
    with ScriptedServer(served_store) as server:
        (replica.source / "link").write_text(f"{server.url}/key?signature=secret")
        yield served_store


QUICK = SCRIPT.replace("PAUSE = 300.0, 2.0", "PAUSE = 30.0, 0.01")


def test_a_store_is_asked_until_it_answers(replica: Replica, work: Path, store: Store) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    store.answers = ((503, b"busy"), (200, content))
    code, out, err = ended(replica.start(content, "echo", "started", script=QUICK))
    assert (code, out) == (0, "started\n")
    assert err == "tfoperator: waiting for the folder: HTTP Error 503: Whatever\n"


def test_what_a_store_can_not_give_is_told_without_the_link(replica: Replica, work: Path, store: Store) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    store.answers = ((403, b"expired"),)
    code, _, err = ended(replica.start(content, "true", script=QUICK))
    assert (code, store.asked) == (1, 1)
    assert "perhaps its link has expired. Submit the job again" in err
    store.answers = ((200, gzip.compress(os.urandom(8 << 20))),)
    code, _, err = ended(replica.start(content, "true", script=QUICK))
    assert "the hash of the received folder differs" in err
    assert (replica.place / "archive").stat().st_size <= len(content) + (1 << 20)
    store.answers = ((503, b""),)
    code, _, err = ended(replica.start(content, "true", script=QUICK.replace("PAUSE = 30.0", "PAUSE = 0.1")))
    assert (code, "can't be started in its folder: HTTP Error 503" in err) == (1, True)
    assert "signature" not in err


def test_it_ends_when_it_is_told_to_while_it_waits(replica: Replica, work: Path, store: Store) -> None:
    (work / "a.py").write_text("1")
    store.answers = ((503, b""),)
    process = replica.start(pack(work).content, "true")
    eventually(lambda: store.asked, within=30, what="the first request")
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 143
