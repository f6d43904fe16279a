"""What runs in a replica, as a process of its own: it knows nothing of the package that has its text."""

from __future__ import annotations

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
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.eventually import eventually
from tfoperator.sdk.workdir import in_replica
from tfoperator.sdk.workdir.packing import pack

SCRIPT = inspect.getsource(in_replica)


class Replica:
    """The volumes of a pod."""

    def __init__(self, folder: Path) -> None:
        self.source, self.place = folder / "source", folder / "place"
        for made in (self.source, self.place):
            made.mkdir()
        self.folder = self.place / "folder"

    def start(
        self, content: bytes, *command: str, digest: str = "", requirements: str = "", script: str = SCRIPT
    ) -> subprocess.Popen[str]:
        named = {
            "TFOPERATOR_MOUNT_TFOPERATOR_WORKDIR_SOURCE": str(self.source),
            "TFOPERATOR_MOUNT_TFOPERATOR_WORKDIR": str(self.place),
        }
        words = [digest or hashlib.sha256(content).hexdigest(), str(len(content)), requirements, *command]
        return subprocess.Popen(
            [sys.executable, "-c", script, *words],
            env={**os.environ, **named},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, content: bytes, *command: str, digest: str = "", requirements: str = "", script: str = SCRIPT
    ) -> tuple[int, str, str]:
        (self.source / "archive").write_bytes(content)
        return ended(self.start(content, *command, digest=digest, requirements=requirements, script=script))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    (tmp_path / "pod").mkdir()
    return Replica(tmp_path / "pod")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


def contents(folder: Path) -> dict[bytes, bytes | str]:
    top = os.fsencode(folder)
    found: dict[bytes, bytes | str] = {}
    for place, folders, files in os.walk(top):
        for name in (*files, *folders):
            path = os.path.join(place, name)
            key = os.path.relpath(path, top)
            if os.path.islink(path):
                found[key] = os.readlink(os.fsdecode(path))
            elif os.path.isfile(path):
                found[key] = Path(os.fsdecode(path)).read_bytes()
    return found


HOSTILE = (
    b"-rf",
    b"a\nb",
    b"\xff\xfe.py",
    b"$(touch x)",
    b"`id`",
    "ü".encode(),
    b" ",
    b"...",
    b"d" * 120 + b"/" + b"f" * 200,
)


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
    assert sorted(os.listdir(replica.place)) == ["folder"]


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
    assert process.stdout is not None
    assert process.stdout.readline() == f"own {process.pid} {replica.folder} ['--x', '$(A) b']\n"
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 7


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
    assert (code, err) == (
        1, "tfoperator: what is there is not the folder that was sent: its hash is another one\n",
    )  # fmt: skip
    outside = tarfile.TarInfo("../outside")
    outside.size = 1
    code, _, err = replica.run(archive_of(tarfile.TarInfo("b.py"), outside), *ran)
    assert code == 1
    assert "touch can't be started in its folder" in err
    code, _, err = replica.run(content, "no-such-program")
    assert (code, "no-such-program" in err) == (1, True)
    assert not (tmp_path / "ran").exists()
    assert not (replica.place / "outside").exists()
    assert contents(replica.folder) == {b"a.py": b"1"}


def wheel(folder: Path, name: str) -> str:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "VALUE = 'installed'\n")
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", tags)
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
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
    assert err.endswith("tfoperator: pip can't install needs.txt (exit code 1); its words are above\n")


class Store(BaseHTTPRequestHandler):
    answers: tuple[tuple[int, bytes], ...] = ()
    asked = 0

    def do_GET(self) -> None:
        code, body = self.answers[min(type(self).asked, len(self.answers) - 1)]
        type(self).asked += 1
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def store(replica: Replica) -> Iterator[type[Store]]:
    handler = type("Handler", (Store,), {})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        (replica.source / "link").write_text(f"http://127.0.0.1:{server.server_port}/key?signature=secret")
        yield handler
        server.shutdown()
        thread.join()


QUICK = SCRIPT.replace("PAUSE = 300.0, 2.0", "PAUSE = 30.0, 0.01")


def test_a_store_is_asked_until_it_answers(replica: Replica, work: Path, store: type[Store]) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    store.answers = ((503, b"busy"), (200, content))
    code, out, err = ended(replica.start(content, "echo", "started", script=QUICK))
    assert (code, out) == (0, "started\n")
    assert err == "tfoperator: waiting for the folder: HTTP Error 503: Service Unavailable\n"


def test_what_a_store_can_not_give_is_told_without_the_link(replica: Replica, work: Path, store: type[Store]) -> None:
    (work / "a.py").write_text("1")
    content = pack(work).content
    store.answers = ((403, b"expired"),)
    code, _, err = ended(replica.start(content, "true", script=QUICK))
    assert (code, store.asked) == (1, 1)
    assert "its link is no longer good. Submit the job again" in err
    store.answers = ((200, gzip.compress(os.urandom(8 << 20))),)
    (replica.source / "link").write_text((replica.source / "link").read_text())
    code, _, err = ended(replica.start(content, "true", script=QUICK))
    assert "its hash is another one" in err
    assert (replica.place / "archive").stat().st_size <= len(content) + (1 << 20)
    store.answers = ((503, b""),)
    code, _, err = ended(replica.start(content, "true", script=QUICK.replace("PAUSE = 30.0", "PAUSE = 0.1")))
    assert (code, "can't be started in its folder: HTTP Error 503" in err) == (1, True)
    assert "signature" not in err


def test_it_ends_when_it_is_told_to_while_it_waits(replica: Replica, work: Path, store: type[Store]) -> None:
    (work / "a.py").write_text("1")
    store.answers = ((503, b""),)
    process = replica.start(pack(work).content, "true")
    eventually(lambda: store.asked, within=30, what="the first request")
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 143
