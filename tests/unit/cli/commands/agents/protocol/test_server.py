"""The protocol: schemas, annotations, limits of time and number, errors, resources and prompts."""

import json
import threading
from datetime import UTC, datetime
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, MCPError

from tests.support.agent import answer, refusal
from tests.support.served import ServedWorld
from tests.unit.cli.commands.agents.conftest import Talk, converse_here
from tfoperator.cli.commands.agents.messages import answers, arguments
from tfoperator.cli.commands.agents.messages.answers import as_data, schema_of
from tfoperator.cli.commands.agents.messages.bounded import text_of
from tfoperator.cli.commands.agents.protocol import server
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.commands.agents.tools.tool_table import READING, Tool

JOB_WORDS = [
    "--kubeconfig=/etc/passwd",
    "-o",
    "../secret",
    "..",
    "run/../..",
    "/etc/passwd",
    "a b",
    "",
    "x" * 300,
    "a\n",
]


def test_every_tool_has_both_schemas_and_annotations(talk: Talk, tools: tuple[Tool, ...]) -> None:
    listed = {tool.name: tool for tool in talk(lambda client: client.list_tools()).tools}
    assert list(listed) == [tool.name for tool in tools]
    for tool in tools:
        shown = listed[tool.name]
        assert shown.output_schema is not None
        for schema in (shown.input_schema, shown.output_schema):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert shown.annotations is not None
        assert shown.annotations.read_only_hint is not tool.changes
        assert shown.description
        for name, argument in shown.input_schema["properties"].items():
            assert name in ("chief", "workers", "ps") or "description" in str(argument), (tool.name, name)


def test_the_tools_that_change_something_are_named_so(tools: tuple[Tool, ...]) -> None:
    assert {tool.name for tool in tools if tool.changes} == {"run", "submit", "suspend", "resume", "scale", "delete"}
    assert {tool.name for tool in tools if tool.destroys} == {"suspend", "scale", "delete"}
    assert not [tool.name for tool in READING if tool.changes]


def test_the_list_of_tools_is_short(talk: Talk) -> None:
    """An agent has it before it all the time."""
    listed = talk(lambda client: client.list_tools()).tools
    sizes = {tool.name: len(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in listed}
    assert sum(sizes.values()) < 32_000
    assert sum(sizes[tool.name] for tool in READING) < 22_000


def test_the_schema_of_an_answer_accepts_what_the_answer_is_and_nothing_else() -> None:
    line = answers.JobLine(job="a", where="run", state="Failed", began=datetime(2026, 1, 1, tzinfo=UTC))
    data = json.loads(text_of(as_data(answers.JobList(jobs=(line,)))))
    schema = schema_of(answers.JobList)
    jsonschema.validate(data, schema)
    assert data["notice"] == answers.NOTICE
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "jobs": [{"job": 1}]}, schema)


@pytest.mark.parametrize("word", JOB_WORDS)
def test_a_job_cannot_be_named_like_an_option_or_a_folder(talk: Talk, tools: tuple[Tool, ...], word: str) -> None:
    about_jobs = [tool.name for tool in tools if issubclass(tool.arguments, arguments.AboutJob)]
    assert len(about_jobs) == 9

    async def ask(client: Client) -> None:
        for name in about_jobs:
            more = {"replicas": {"Worker": 1}} if name == "scale" else {}
            message = await refusal(client, name, job=word, **more)
            assert "`$.job`" in message
            assert "RUN/JOB" in message

    talk(ask)


@pytest.mark.parametrize(
    ("tool", "asked", "words"),
    [
        ("explain", {}, "missing required field `job`"),
        ("explain", {"job": "a", "odd": 1}, "unknown field `odd`"),
        ("explain", {"job": "a", "maxCharacters": 10**9}, "maxCharacters: The maximum length"),
        ("logs", {"job": "a", "replica": "worker-1; rm -rf"}, "replica"),
        ("explain", {"job": "a", "namespace": "../kube-system"}, "`$.namespace`"),
        ("validate_manifest", {"manifest": "x" * (1 << 21)}, "`$.manifest`"),
        ("explain_field", {"field": "__class__"}, "`$.field`"),
        ("explain_field", {"field": "spec.tfReplicaSpec"}, "Perhaps you mean tfReplicaSpecs"),
        ("pipeline_runs", {"run": "../../etc"}, "`$.run`"),
        ("pipeline_runs", {}, "there are no records of pipeline runs"),
        (
            "run",
            {"file": "/etc/shadow"},
            "this file was not named when the server was started (the files are: train.py)",
        ),
        ("submit", {"file": "other.yaml"}, "this file was not named"),
        ("submit", {}, "either `manifest` or `file`"),
        ("explain", {"job": "absent"}, "absent"),
    ],
)
def test_a_wrong_call_is_refused_in_words(talk: Talk, tool: str, asked: dict[str, Any], words: str) -> None:
    async def ask(client: Client) -> str:
        return await refusal(client, tool, **asked)

    message = talk(ask)
    assert words in message
    assert len(message) <= 4000


def test_an_unknown_tool_prompt_and_resource_are_errors_of_the_protocol(talk: Talk) -> None:
    async def ask(client: Client) -> None:
        with pytest.raises(MCPError, match="there is no tool"):
            await client.session.call_tool("rm", {})
        with pytest.raises(MCPError, match="there is no prompt"):
            await client.get_prompt("rm")
        for uri in ("file:///etc/passwd", "tfoperator://docs/../../etc/passwd", "tfoperator://jobs/../x/manifest", "x"):
            with pytest.raises(MCPError, match=r"there is no resource|matching regex"):
                await client.read_resource(uri)

    talk(ask)


def test_without_permission_no_tool_changes_anything(scope: Scope) -> None:
    listed = converse_here(scope, READING, lambda client: client.list_tools()).tools
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in listed)


def blocking(done: threading.Event, seconds: float = 60) -> Tool:
    """A tool that works until `done`."""

    def work(_: Scope, __: arguments.ToolArguments, step: Any) -> answers.ToolAnswer:
        step("digging")
        done.wait(seconds)
        return answers.ToolAnswer()

    return Tool(
        name="dig",
        title="Dig",
        description="Dig.",
        arguments=arguments.ToolArguments,
        answer=answers.ToolAnswer,
        call=work,
    )


def test_a_call_ends_in_time_and_reports_its_steps(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CALL_SECONDS", 0.3)
    monkeypatch.setattr(server, "_BEAT_SECONDS", 0.05)
    done = threading.Event()
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async def ask(client: Client) -> str:
        result = await client.call_tool("dig", {}, progress_callback=note)
        done.set()
        assert result.is_error
        return str(result.content[0].text)  # type: ignore[union-attr]

    assert converse_here(scope, (blocking(done),), ask) == "the call did not end within 0 s; its last step: digging"
    assert [message for _, _, message in reports][-1] == "digging"
    assert [progress for progress, _, _ in reports] == sorted(progress for progress, _, _ in reports)


def test_a_thousand_calls_at_once_are_answered_or_refused_and_the_next_call_works(scope: Scope) -> None:
    done = threading.Event()
    failures: list[bool] = []

    async def ask(client: Client) -> None:
        async def call() -> None:
            result = await client.call_tool("dig", {})
            failures.append(bool(result.is_error))
            if len(failures) == 1000 - server.PARALLEL_CALLS - server.WAITING_CALLS:
                done.set()  # all that are refused were refused at once
            if result.is_error:
                assert "calls are running or waiting" in str(result.content[0].text)  # type: ignore[union-attr]

        async with anyio.create_task_group() as tasks:
            for _ in range(1000):
                tasks.start_soon(call)
        assert await answer(client, "dig") == {}

    converse_here(scope, (blocking(done),), ask)
    assert failures.count(False) == server.PARALLEL_CALLS + server.WAITING_CALLS


def test_an_error_that_nobody_expects_is_a_short_message(scope: Scope, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> answers.ToolAnswer:
        raise RuntimeError("password=hunter2hunter2 " + "x" * 9000)

    tool = Tool(
        name="dig",
        title="Dig",
        description="Dig.",
        arguments=arguments.ToolArguments,
        answer=answers.ToolAnswer,
        call=fail,
    )

    async def ask(client: Client) -> str:
        return await refusal(client, "dig")

    message = converse_here(scope, (tool,), ask)
    assert message.startswith("internal error: RuntimeError: password=<masked>")
    assert len(message) < 4100
    assert "a call has failed with an unexpected error" in caplog.text


def test_the_pages_and_the_fields_are_resources_in_parts(talk: Talk) -> None:
    async def read(client: Client) -> tuple[list[str], str, str]:
        uris = [resource.uri for resource in (await client.list_resources()).resources]
        first = (await client.read_resource("tfoperator://fields")).contents[0].text  # type: ignore[union-attr]
        last_line = first.rstrip().rpartition("\n")[2]
        uri = last_line.rpartition(" ")[2].rstrip(")")
        second = (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
        return uris, first, second

    uris, first, second = talk(read)
    assert {"tfoperator://fields", "tfoperator://docs/agents", "tfoperator://docs/tfjob"} <= set(uris)
    assert "# Every field of a TFJob" in first
    assert len(first) < 8200
    assert second
    assert second not in first


def test_the_manifest_of_a_job_is_a_resource_without_secrets(talk: Talk, world: ServedWorld) -> None:
    body = world.submit("mnist")
    container = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "HF_TOKEN", "value": "hunter2"}]
    world.sdk.patch_job("mnist", {"spec": body["spec"]})
    uri = f"tfoperator://jobs/{world.namespace}/mnist/manifest"

    async def read(client: Client) -> str:
        return str((await client.read_resource(uri)).contents[0].text)  # type: ignore[union-attr]

    text = talk(read)
    assert text.startswith(f"# {answers.NOTICE}\napiVersion: kubeflow.org/v1\nkind: TFJob\n")
    assert "hunter2" not in text
    assert "<masked>" in text
    assert "resourceVersion" not in text


def test_the_prompts_name_the_tools_and_take_their_arguments(talk: Talk, tools: tuple[Tool, ...]) -> None:
    async def read(client: Client) -> list[str]:
        texts = []
        for prompt in (await client.list_prompts()).prompts:
            given = {argument.name: "mnist" for argument in prompt.arguments or ()}
            result = await client.get_prompt(prompt.name, given)
            texts.append(str(result.messages[0].content.text))  # type: ignore[union-attr]
            assert "mnist" in texts[-1]
        with pytest.raises(MCPError, match="needs the argument program"):
            await client.get_prompt("make_my_program_a_job", {})
        with pytest.raises(MCPError, match="has no argument odd"):
            await client.get_prompt("why_did_my_job_fail", {"odd": "x"})
        return texts

    texts = talk(read)
    assert len(texts) == 3
    assert "explain" in texts[0]
    assert "validate_manifest" in texts[1]
    assert "migrate" in texts[2]
