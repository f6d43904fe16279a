"""One suite, two stores: a directory, and an S3 server."""

from __future__ import annotations

import errno
import http.server
import os
import threading
from pathlib import Path

import pytest

from hack.s3_server import BUCKET
from tests.support.fixtures import s3, s3_variables
from tests.support.threads import InThread
from tests.unit.pipeline.samples import diamond, runner, states
from tfoperator.launcher import ComponentError
from tfoperator.pipeline.objects import (
    ABSENT,
    FileObjects,
    ObjectConflict,
    ObjectStore,
    ObjectStoreError,
    check_conditional_writes,
    open_objects,
)

__all__ = ["s3", "s3_variables"]

pytestmark = pytest.mark.full  # an S3 server takes longer to start than all other tests of a folder


@pytest.fixture(params=["file", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, s3: dict[str, str]) -> ObjectStore:
    return open_objects(f"file://{tmp_path}/there" if request.param == "file" else f"s3://{BUCKET}/{tmp_path.name}")


def test_objects_are_written_read_listed_and_removed(objects: ObjectStore) -> None:
    assert (objects.get("a/none"), list(objects.keys("a/"))) == (None, [])
    for name in ("a/2", "a/1", "b/1", "a/b/1"):
        objects.put(name, name.encode())
    assert list(objects.keys("a/")) == ["a/1", "a/2", "a/b/1"]
    assert list(objects.keys("a/", after="a/1")) == ["a/2", "a/b/1"]
    assert list(objects.keys("")) == ["a/1", "a/2", "a/b/1", "b/1"]
    stored = objects.get("a/1")
    assert stored is not None
    assert (stored.data, 0 <= stored.age < 60) == (b"a/1", True)
    for _ in range(2):
        objects.delete("a/1")
    assert objects.get("a/1") is None


def test_a_folder_that_can_not_be_read_is_not_listed_as_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FileObjects(tmp_path)
    objects.put("a/b/1", b"1")
    scandir = os.scandir

    def stale(folder: str) -> object:
        if Path(folder) == tmp_path / "a/b":
            raise OSError(errno.ESTALE, "Stale file handle", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", stale)
    with pytest.raises(ObjectStoreError, match="a/b: Stale file handle"):
        list(objects.keys("a/"))
    assert list(objects.keys("none/")) == list(objects.keys("a/b/1/")) == []


def test_a_write_under_a_condition_that_does_not_hold_changes_nothing(objects: ObjectStore) -> None:
    check_conditional_writes(objects, "here")
    assert list(objects.keys("")) == []
    first = objects.put("x", b"1", ABSENT)
    with pytest.raises(ObjectConflict):
        objects.put("x", b"2", ABSENT)
    second = objects.put("x", b"3", first)
    with pytest.raises(ObjectConflict):
        objects.put("x", b"4", first)
    stored = objects.get("x")
    assert stored is not None
    assert (stored.data, stored.version) == (b"3", second)
    objects.delete("x")
    with pytest.raises(ObjectConflict):
        objects.put("x", b"5", second)


def test_of_those_who_write_at_once_one_succeeds(objects: ObjectStore) -> None:
    """A counter that four threads count up: no step is lost."""

    def count(who: int) -> None:
        for turn in range(3):
            while True:
                stored = objects.get("count")
                number = int(stored.data.split()[0]) if stored else 0
                try:
                    objects.put("count", f"{number + 1} {who} {turn}".encode(), stored.version if stored else ABSENT)
                    break
                except ObjectConflict:
                    continue

    calls = [InThread(lambda who=who: count(who)) for who in range(4)]
    for call in calls:
        call.result(60)
    stored = objects.get("count")
    assert stored is not None
    assert stored.data.split()[0] == b"12"


def test_a_run_whose_records_are_in_s3_is_used_again_and_no_key_is_among_them(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="tfoperator")
    place = f"s3://{BUCKET}/runs"
    first = runner(tmp_path, home=place).run(diamond(tmp_path))
    second = runner(tmp_path, home=place).run(diamond(tmp_path, left=20))
    assert states(first) == dict.fromkeys(("begin", "left", "right", "end"), "succeeded")
    assert states(second) == {"begin": "cached", "left": "succeeded", "right": "cached", "end": "succeeded"}
    objects = open_objects(place)
    found = [objects.get(key) for key in objects.keys("")]
    assert len(found) > 10
    texts = [*(one.data.decode() for one in found if one is not None), caplog.text]
    assert not any(s3["AWS_SECRET_ACCESS_KEY"] in text for text in texts)


def test_a_write_whose_answer_was_lost_has_succeeded(s3: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    objects = open_objects(f"s3://{BUCKET}/lost")
    assert objects.put("x", b"mine", ABSENT) == objects.put("x", b"mine", ABSENT)


def test_a_store_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    class Careless(FileObjects):
        def put(self, key: str, data: bytes, expected: str | None = None) -> str:
            return super().put(key, data)

    with pytest.raises(ObjectStoreError, match="s3://x ignores the conditions"):
        check_conditional_writes(Careless(tmp_path), "s3://x")


class Refuses(http.server.BaseHTTPRequestHandler):
    """Answers everything with an error of S3."""

    code = ""

    def do_GET(self) -> None:
        body = f"<Error><Code>{self.code}</Code><Message>no</Message></Error>".encode()
        self.send_response(503 if self.code == "SlowDown" else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("InvalidAccessKeyId", "does not know this access key: set AWS_ACCESS_KEY_ID"),
        ("SignatureDoesNotMatch", "the secret key is not that of this access key"),
        ("ExpiredToken", "the credentials have expired"),
        ("AccessDenied", "access is denied: the credentials need s3:GetObject"),
        ("AuthorizationHeaderMalformed", "set AWS_REGION"),
        ("SomethingNew", "SomethingNew: no"),
        ("SlowDown", "SlowDown: no"),
    ],
)
def test_what_is_refused_is_said_in_a_sentence_without_secrets(
    code: str, advice: str, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = type("Handler", (Refuses,), {"code": code})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as refusing:
        thread = threading.Thread(target=refusing.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{refusing.server_port}")
            with pytest.raises(ObjectStoreError) as caught:
                open_objects("s3://records/x").get("y")
        finally:
            refusing.shutdown()
            thread.join()
    said = str(caught.value)
    assert (advice in said, said.count("\n"), caught.value.passing) == (True, 0, code == "SlowDown")
    assert s3["AWS_SECRET_ACCESS_KEY"] not in said


def test_wrong_places_are_said_in_a_sentence(
    s3: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ObjectStoreError, match="there is no such bucket"):
        open_objects("s3://nowhere").get("x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:hidden@127.0.0.1:1")
    with pytest.raises(ObjectStoreError, match=r"can't be reached at 127\.0\.0\.1:1") as caught:
        open_objects("s3://records").get("x")
    assert "hidden" not in str(caught.value)
    for malformed in ("user:hidden@127.0.0.1:1", "http://user:hidden@[::1", "http://user:hidden@127.0.0.1:x"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", malformed)
        with pytest.raises(ObjectStoreError) as caught:
            open_objects("s3://records").get("x")
        assert "hidden" not in str(caught.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(ObjectStoreError, match="there are no credentials for it: set AWS_ACCESS_KEY_ID"):
        open_objects("s3://records").get("x")
    for bad, reason in (
        ("s3://key:secret@bucket/x", "can't have credentials in it"),
        ("gs://bucket/x", "s3://BUCKET/PREFIX"),
        ("s3://bucket/a/../b", "a prefix is words"),
        ("s3://bucket/x?y=1", "nothing behind it"),
        ("s3://b/x", "s3://BUCKET/PREFIX"),
    ):
        with pytest.raises(ComponentError, match=reason) as refused:
            open_objects(bad)
        assert "secret" not in str(refused.value).replace("AWS_SECRET_ACCESS_KEY", "")
