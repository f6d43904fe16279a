"""A command imports what it needs: a person waits for the rest, and a machine pays for it at every call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfoperator.cli.command_table import COMMANDS, GROUPS

HEAVY = frozenset({"pydantic", "rich", "aiohttp", "cryptography", "jsonschema", "prometheus_client", "psutil"})
"""Libraries whose import takes a hundredth of a second or more."""

WEB_SERVER = frozenset({"tfoperator.servers.http.server", "tfoperator.local.apiserver.server", "tfoperator.ui.server"})
OWN = frozenset(
    {"tfoperator.sdk", "tfoperator.local.controlplane", "tfoperator.operator.operator", "tfoperator.pipeline"}
)

PROGRAM = """
import json, sys
from tfoperator.cli.__main__ import main
code = main(json.loads(sys.argv[1]))
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def modules_of(*arguments: str, folder: Path) -> frozenset[str]:
    """The modules that a command has imported, which ended well."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stdout + done.stderr
    return frozenset(modules)


@pytest.mark.parametrize("arguments", [("--version",), ("--debug", "--version")])
def test_the_version_needs_no_library_but_the_command_lines(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert not modules_of(*arguments, folder=tmp_path) & (HEAVY | OWN | {"yaml", "tfoperator.api"})


def test_the_list_of_commands_needs_the_code_of_none(tmp_path: Path) -> None:
    modules = modules_of("--help", folder=tmp_path)
    assert not modules & (HEAVY - {"rich"} | OWN | {"tfoperator.api"})
    assert not [name for name in modules if name.startswith("tfoperator.cli.commands")]


def test_a_manifest_is_checked_without_a_control_plane(tmp_path: Path) -> None:
    manifest = Path(__file__).parents[3] / "examples" / "digits" / "tfjob.yaml"
    assert not modules_of("validate", str(manifest), folder=tmp_path) & (HEAVY | OWN - {"tfoperator.sdk"})


def test_a_run_imports_no_page_no_terminal_and_no_validation_of_arguments(tmp_path: Path) -> None:
    """Its control plane has a web server, which a run cannot do without; all before that needs none."""
    (tmp_path / "hello.py").write_text("print('hello')\n")
    modules = modules_of("run", "hello.py", folder=tmp_path)
    assert not modules & {
        "pydantic",
        "rich",
        "aiohttp",
        "websockets",
        "tfoperator.ui.server",
        "websocket",
        "kubernetes",
        "tensorflow",
        "arrow",
        "jsonschema",
    }
    assert not modules & {"tfoperator.sdk.client", "tfoperator.sdk.reader", "tfoperator.sdk.workdir.delivery"}
    assert not [name for name in modules if name.startswith("tfoperator.pipeline")]


def test_a_refused_run_has_imported_no_web_server(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        PROGRAM.replace("code = main", "code = 0 * main"),
        json.dumps(["run", "absent.yaml"]),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert not set(json.loads(done.stdout.splitlines()[-1])[1]) & (WEB_SERVER | {"pydantic", "rich"})


@pytest.mark.parametrize(
    "name", [*COMMANDS, *(f"{group} {name}" for group in GROUPS for name in GROUPS[group].commands)]
)
def test_the_line_of_a_command_in_the_help_is_the_first_of_its_docstring(name: str) -> None:
    group, _, within = name.partition(" ")
    command = GROUPS[group].commands[within] if within else COMMANDS[name]
    docstring = command.load().__doc__ or ""
    assert " ".join(docstring.split("\n\n")[0].split()) == command.summary, "tfoperator/cli/command_table.py differs"
