"""Artifacts in an object store: an S3 server on loopback."""

import json
from pathlib import Path
from typing import Any

import pytest

from hack.s3_server import BUCKET
from tests.support.services import s3, s3_variables
from tests.unit.pipeline.samples import DONE, runner, states
from tfoperator.launcher import ExecutorClassSpec, LaunchContext
from tfoperator.launcher.core.output import read_output
from tfoperator.launcher.core.output_document import MalformedOutput
from tfoperator.object_store import Objects
from tfoperator.pipeline import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ExecutionParameter,
    Home,
    Pipeline,
    PipelineFailed,
    make_spec_class,
)
from tfoperator.pipeline.runner.leftovers import clean_run

__all__ = ["s3", "s3_variables"]

pytestmark = pytest.mark.full


class Counter:
    """Uses an object store only to read: leaves a folder on its own disk, and reports its path."""

    def do(self, input_dict: Any, output_dict: Any, exec_properties: Any) -> None:
        [text] = input_dict["text"]
        content = b"".join((Objects(text.uri).get(obj.key) or (b"",))[0] for obj in Objects(text.uri).here())
        place, name = exec_properties["tmp_path"], exec_properties["name"]
        if place.startswith("s3://"):
            Objects(output_dict["count"][0].uri).put("data", content)
            uri = output_dict["count"][0].uri
        else:
            uri = f"{place}/model"
            Path(uri, "deep").mkdir(parents=True, exist_ok=True)
            Path(uri, "deep", "data").write_bytes(content + name.encode())
        document = json.dumps({"outputs": {"count": {"uri": uri, "properties": {"bytes": len(content)}}}}).encode()
        if place.startswith("s3://"):
            Objects(place).put("output.json", document)
        else:
            Path(place, "output.json").write_bytes(document)
        DONE.append(name)


class Count(BaseComponent):
    SPEC_CLASS = make_spec_class(
        inputs={"text": ChannelParameter(type="Text")},
        outputs={"count": ChannelParameter(type="Text")},
        parameters={"name": ExecutionParameter(type=str)},
    )
    EXECUTOR_SPEC = ExecutorClassSpec(Counter)


@pytest.fixture
def bucket(s3: dict[str, str], tmp_path: Path) -> Objects:
    return Objects(f"s3://{BUCKET}/{tmp_path.name}")


def two(bucket: Objects) -> Pipeline:
    first = Count(name="first", text=Channel("Text", uri=f"{bucket}/text")).with_id("first")
    second = Count(name="second", text=first.outputs.count).with_id("second")
    return Pipeline("remote", f"{bucket}/root", [first, second], enable_cache=True)


def test_what_a_step_leaves_on_its_disk_is_used_again_while_it_and_its_input_are_there(
    bucket: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def ran() -> list[str]:
        DONE.clear()
        runs.append(runner(tmp_path).run(two(bucket)))
        return list(DONE)

    runs: list[Any] = []
    bucket.put("text/a", b"some")
    bucket.put("text-of-others", b"x")
    assert ran() == ["first", "second"]
    made = f"root/first/count/{runs[0].run_id}"
    [count] = runs[0].results["first"].outputs["count"]
    assert (count.uri, count.properties) == (f"{bucket}/{made}", {"bytes": 4})
    assert bucket.get(f"root/second/count/{runs[0].run_id}/deep/data") is not None
    assert bucket.get(f"{made}/deep/data", limit=99)[0] == b"somefirst"  # type: ignore[index]
    bucket.put("text-of-others", b"y")
    bucket.put("text/a", b"some")  # the same
    assert ran() == []
    assert set(states(runs[-1]).values()) == {"cached"}
    for change in (lambda: bucket.put("text/a", b"else"), lambda: bucket.put("text/b", b"more")):
        change()
        assert ran() == ["first", "second"]
    bucket.delete([f"root/second/count/{runs[-1].run_id}/deep/data"])
    assert ran() == ["second"]
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "here", lambda self: list(Objects("s3://nobucket/x").all()))
        with pytest.raises(PipelineFailed):
            ran()  # what can't be looked at is not used, and made again: here, that fails, too
    assert (
        "caching is disabled, because an input can't be read: s3://nobucket/x: this bucket does not exist"
        in caplog.text
    )
    home = Home(tmp_path / "home")
    with home.store() as store:

        def clean(number: int) -> list[str]:
            return clean_run(home, store, home.find(store, runs[number].run_id), outputs=True)

        assert clean(0) == []  # the next run has used them
        mine = [f"root/{step}/count/{runs[2].run_id}" for step in ("first", "second")]
        bucket.put(f"{mine[0]}-of-others", b"x")
        assert clean(2) == [f"{bucket}/{key}" for key in mine]
        assert [bucket.find(f"{key}/deep/data") for key in mine] == [None, None]
        assert bucket.find(f"{mine[0]}-of-others") is not None
        assert clean(3) == []  # one is used, the other was gone before


def test_where_tmp_path_is_objects_a_step_writes_there_after_an_earlier_try(bucket: Objects, tmp_path: Path) -> None:
    bucket.put("text", b"some")
    context = LaunchContext(tmp_path=f"{bucket}/tmp")
    result = runner(tmp_path, context=context).run(two(bucket), run_id="one")
    assert result.results["second"].outputs["count"][0].properties == {"bytes": 4}
    context.store.clear(f"{bucket}/tmp/one/first")
    assert [obj.key for obj in bucket.all("tmp")] == ["tmp/one/second/output.json"]
    bucket.put("tmp/one/second/output.json", b"x" * (1 << 21))
    assert isinstance(read_output(context.store, f"{bucket}/tmp/one/second", {}), MalformedOutput)
