"""Objects by URL: on an S3 server on loopback, with it away, and what is refused without any."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from hack.s3_server import BUCKET
from tests.support.services import s3, s3_variables
from tfoperator.object_store import ObjectChanged, Objects, ObjectStoreError, is_object_url

__all__ = ["s3", "s3_variables"]

on_server = pytest.mark.full  # it takes longer to start than all other tests of a folder


@pytest.fixture
def objects(s3: dict[str, str], tmp_path: Path) -> Objects:
    return Objects(f"s3://{BUCKET}/{tmp_path.name}")


@on_server
def test_objects_are_written_read_listed_and_removed(objects: Objects) -> None:
    assert objects.get("a/none") is objects.find("a/none") is None
    assert [*objects.all(), *objects.folders()] == []
    for key in ("a/2 ü", "a/1", "b/1", "a/b/1", "ab"):
        objects.put(key, f"content of {key}".encode())
    assert [obj.key for obj in objects.all("a")] == ["a/1", "a/2 ü", "a/b/1"]
    assert [obj.key for obj in objects.below("a").all()] == ["1", "2 ü", "b/1"]
    assert (objects.folders(), objects.folders("a")) == (["a", "b"], ["b"])
    for last, content in ((0, b"content of a/1"), (3, b"a/1"), (99, b"content of a/1")):
        stored = objects.get("a/1", last=last)
        assert stored is not None
        assert (stored[0], stored[1].size) == (content, 14)
    objects.put("empty", b"")
    assert (objects.get("empty", last=5) or ("", ""))[0] == b""
    objects.delete(["a/1", "never there"])
    objects.below("a").remove()
    assert [obj.key for obj in objects.all()] == ["ab", "b/1", "empty"]


@on_server
@pytest.mark.parametrize("key", ["../x", "a/../../x", "a//b", "a/./b", "a\0b"])
def test_a_key_that_leads_out_is_an_error_of_the_store(objects: Objects, key: str) -> None:
    for use in (lambda: objects.link(key, timedelta(1)), lambda: objects.put(key, b""), lambda: objects.get(key)):
        with pytest.raises(ObjectStoreError, match="is not a valid key: a key must not have control characters"):
            use()


def test_a_write_over_another_version_changes_nothing(objects: Objects) -> None:
    objects.put("x", b"1", "create")
    first = objects.find("x")
    assert first is not None
    objects.put("x", b"2", first)
    for over in ("create", first):
        with pytest.raises(ObjectChanged, match="another process has written"):
            objects.put("x", b"3", over)  # type: ignore[arg-type]
    stored = objects.get("x")
    assert stored is not None
    assert (stored[0], stored[1].version != first.version) == (b"2", True)


@on_server
def test_a_folder_is_copied_with_all_below_it_and_a_large_file_in_parts(objects: Objects, tmp_path: Path) -> None:
    (tmp_path / "model" / "variables").mkdir(parents=True)
    (tmp_path / "model" / "variables" / "data").write_bytes(bytes(range(256)) * (1 << 15))
    (tmp_path / "model" / "graph").write_bytes(b"graph")
    (tmp_path / "model" / "link").symlink_to("/etc/passwd")
    there = objects.below("model")
    there.upload(tmp_path / "model")
    assert [(obj.key, obj.size) for obj in there.here()] == [("graph", 5), ("variables/data", 8 << 20)]
    single = objects.below("one")
    single.upload(tmp_path / "model" / "graph")
    assert [(obj.key, obj.size) for obj in single.here()] == [("", 5)]
    with pytest.raises(FileNotFoundError):
        single.upload(tmp_path / "none")


@on_server
def test_what_is_wrong_is_said_in_a_sentence_without_what_the_server_answered(s3: dict[str, str]) -> None:
    nowhere = Objects("s3://nobucket/a")
    works = (lambda: nowhere.get("x"), lambda: nowhere.delete(["x"]), lambda: nowhere.put("x", b"1"))
    for work in (*works, lambda: list(nowhere.all())):
        with pytest.raises(ObjectStoreError) as caught:
            work()
        assert str(caught.value) == "s3://nobucket/a: this bucket does not exist (NoSuchBucket)"
        assert not caught.value.passing


def test_a_url_that_is_malformed_is_refused() -> None:
    with pytest.raises(ObjectStoreError, match=r"s3://\.\.\.: must have the form"):
        Objects("s3://[bucket/x")


def test_a_store_that_does_not_answer_is_told_as_one_that_may_do_so_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "known")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    with pytest.raises(ObjectStoreError, match=r"s3://there/a: .*127.0.0.1:1") as caught:
        list(Objects("s3://there/a").all())
    assert caught.value.passing
    assert not [part for part in ("?", "\n", "SECRET") if part in str(caught.value)]


@pytest.mark.parametrize(
    "url",
    [
        *("s3://", "s3://a/b/../c", "s3://a//b", "s3://a/b\nc", "ftp://bucket/x", "file:///tmp", "/tmp"),
        *("s3://k:SECRET@bucket/x", "s3://bucket/x?sig=SECRET", "az://bucket/x#SECRET"),
    ],
)
def test_other_urls_are_refused_and_none_is_repeated_that_may_have_a_secret(url: str) -> None:
    with pytest.raises(ObjectStoreError) as caught:
        Objects(url)
    assert "SECRET" not in str(caught.value)


def test_what_has_objects_is_told_by_its_scheme_and_needs_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(map(is_object_url, ("s3://a", "gs://a", "az://a")))
    assert not any(map(is_object_url, ("s3:/a", "file:///a", "a", "x://")))
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ObjectStoreError, match=r"pip install 'tfoperator\[objects\]'"):
        Objects("gs://never-seen/x")
