import base64
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.config.kubeconfigs import Load
from tests.unit.kube.conftest import Certificates, Serve
from tests.unit.kube.server import Exchange
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import ConfigError

API_VERSION = "client.authentication.k8s.io/v1"

# A plugin as a user would have it: it prints the content of the file `answer` next to it and counts its runs.
PLUGIN = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
(here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(here / "seen").write_text(json.dumps([sys.argv[1:], os.environ.get("REGION")]))
sys.stdout.write((here / "answer").read_text())
"""


class Plugin:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "plugin"
        self.path.write_text(PLUGIN)
        self.path.chmod(0o755)

    def says(self, **status: Any) -> None:
        self.says_raw(credential(status=status))

    def hands_out(self, certificates: Certificates, name: str) -> None:
        chain, key = ((certificates.directory / f"{name}.{suffix}").read_text() for suffix in ("crt", "key"))
        self.says(clientCertificateData=chain, clientKeyData=key)

    def says_raw(self, answer: Any) -> None:
        (self.directory / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def runs(self) -> int:
        runs = self.directory / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    def user(self, **settings: Any) -> dict[str, Any]:
        defaults = {"apiVersion": API_VERSION, "command": str(self.path), "interactiveMode": "Never"}
        return {"exec": {**defaults, **settings}}


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_plugin_is_run_when_it_is_needed_and_again_when_its_token_expires(plugin: Plugin, load: Load) -> None:
    clock = FakeClock()
    plugin.says(token="one", expirationTimestamp=stamp(clock.now() + timedelta(minutes=14)))
    credentials = load(plugin.user(), clock=clock).credentials
    assert plugin.runs == 0
    assert [credentials.current().authorization for _ in range(3)] == ["Bearer one"] * 3
    assert plugin.runs == 1
    plugin.says(token="two", expirationTimestamp=stamp(clock.now() + timedelta(minutes=28)))
    clock.advance(13.5 * 60)
    assert credentials.current().authorization == "Bearer two"
    assert plugin.runs == 2


def test_a_plugin_beside_the_kubeconfig_gets_arguments_environment_and_the_cluster(plugin: Plugin, load: Load) -> None:
    plugin.says(token="t")
    given: dict[str, Any] = {"args": ["get-token", "-i", "c"], "env": [{"name": "REGION", "value": "r1"}]}
    user = plugin.user(command="./plugin", provideClusterInfo=True, **given)
    load(user, cluster={"tls-server-name": "x"}).credentials.current()
    assert json.loads((plugin.directory / "seen").read_text()) == [["get-token", "-i", "c"], "r1"]
    info = json.loads((plugin.directory / "info").read_text())
    assert info["apiVersion"] == API_VERSION
    assert info["spec"]["cluster"]["server"] == "https://k8s.test"


def test_a_plugin_gets_the_authority_of_its_file(plugin: Plugin, load: Load, certificates: Certificates) -> None:
    plugin.says(token="t")
    cluster = {
        "certificate-authority": str(certificates.ca),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    load(plugin.user(provideClusterInfo=True), cluster=cluster).credentials.current()
    authority = base64.b64encode(certificates.ca.read_bytes()).decode()
    assert json.loads((plugin.directory / "info").read_text())["spec"]["cluster"] == {
        "server": "https://k8s.test",
        "certificate-authority-data": authority,
        "config": {"audience": "a"},
    }


@contextmanager
def at_descriptors(**files: int) -> Iterator[None]:
    """Put these open files in place of stdin and stderr."""
    numbers = {"stdin": 0, "stderr": 2}
    before = {number: os.dup(number) for number in numbers.values()}
    try:
        for name, file in files.items():
            os.dup2(file, numbers[name])
        yield
    finally:
        for number, file in before.items():
            os.dup2(file, number)
            os.close(file)


ANSWER = f"""echo '{{"apiVersion": "{API_VERSION}", "kind": "ExecCredential", "status": {{"token": "'"t-$word"'"}}}}'"""


def reader(plugin: Plugin, mode: str | None) -> dict[str, Any]:
    """Return a user whose plugin asks for a word on its stderr, and reads the word from its stdin."""
    script = f'printf "word: " >&2; read -r word; echo "$KUBERNETES_EXEC_INFO" > {plugin.directory}/info; {ANSWER}'
    user = plugin.user(command="sh", args=["-c", script])
    user["exec"] |= {"interactiveMode": mode}
    return user


def was_interactive(plugin: Plugin) -> bool:
    return bool(json.loads((plugin.directory / "info").read_text())["spec"]["interactive"])


def test_a_plugin_does_not_read_what_is_piped_to_the_command(plugin: Plugin, load: Load) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"kind: TFJob\n")
    os.close(writing)
    with at_descriptors(stdin=reading):
        assert load(reader(plugin, "IfAvailable")).credentials.current().authorization == "Bearer t-"
    assert os.read(reading, 100) == b"kind: TFJob\n"
    os.close(reading)
    assert not was_interactive(plugin)


@pytest.mark.parametrize(
    ("mode", "word"), [("IfAvailable", "typed"), ("Always", "typed"), (None, "typed"), ("Never", "")]
)
def test_a_plugin_asks_on_the_terminal_unless_it_never_asks(
    plugin: Plugin, load: Load, mode: str | None, word: str
) -> None:
    master, terminal = os.openpty()
    os.write(master, b"typed\n")
    with at_descriptors(stdin=terminal, stderr=terminal):
        assert load(reader(plugin, mode)).credentials.current().authorization == f"Bearer t-{word}"
    assert b"word: " in os.read(master, 1000)
    os.close(master)
    os.close(terminal)
    assert was_interactive(plugin) == bool(word)


def test_a_plugin_that_always_asks_needs_a_terminal(plugin: Plugin, load: Load) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    with (
        at_descriptors(stdin=null),
        pytest.raises(ConfigError, match="interactiveMode Always, but stdin is no terminal"),
    ):
        load(reader(plugin, "Always")).credentials.current()
    os.close(null)
    with pytest.raises(ConfigError, match="interactiveMode must be Never, IfAvailable or Always"):
        load(reader(plugin, "Sometimes"))


def test_a_refused_token_is_issued_anew(plugin: Plugin, load: Load, serve: Serve, certificates: Certificates) -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.headers["authorization"] == "Bearer two":
            exchange.respond(200, b"ok")
        else:
            plugin.says(token="two")
            exchange.status(401, "Unauthorized", "expired")

    plugin.says(token="one")
    server = serve(handler, certificates.server_context())
    with Client(load(plugin.user(), server.url, trust=certificates)) as client:
        assert client.get_raw("/") == b"ok"
    assert plugin.runs == 2


def test_a_refused_client_certificate_is_issued_anew_and_old_connections_are_left(
    plugin: Plugin, load: Load, serve: Serve, certificates: Certificates
) -> None:
    def handler(exchange: Exchange) -> None:
        assert "authorization" not in exchange.headers
        if len(exchange.server.requests) == 2:
            plugin.hands_out(certificates, "bob")
        if len(exchange.server.requests) > 1 and exchange.client_name == "alice":
            exchange.status(401, "Unauthorized", "certificate has expired")
        else:
            exchange.respond(200, exchange.client_name.encode())

    server = serve(handler, certificates.server_context(ask_client=True))
    plugin.hands_out(certificates, "alice")
    with Client(load(plugin.user(), server.url, trust=certificates)) as client:
        assert client.get_raw("/") == b"alice"
        assert client.get_raw("/") == b"bob"
    assert plugin.runs == 2


def credential(api_version: str = API_VERSION, **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "ExecCredential", **more}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("s3cret is not JSON", "is not JSON"),
        (credential(), "has no status"),
        (credential("other/v1", status={"token": "s3cret"}), "does not have the apiVersion"),
        (credential(status={}), "neither a token nor"),
        (credential(status="s3cret"), "has no status"),
        (credential(status={"clientCertificateData": "s3cret"}), "neither a token nor"),
        (credential(status={"token": "s3cret x"}), "must contain only the bearer token, but it has"),
        (credential(status={"token": "s3cret", "expirationTimestamp": "soon"}), "not a time of RFC 3339"),
        ("[]", "answer"),
    ],
)
def test_a_bad_answer_is_explained_without_showing_it(plugin: Plugin, load: Load, answer: Any, message: str) -> None:
    plugin.says_raw(answer)
    with pytest.raises(ConfigError, match=message) as caught:
        load(plugin.user()).credentials.current()
    assert f"user 'u': exec plugin {plugin.path}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_plugin_that_fails_is_quoted_and_one_that_is_not_installed_gives_its_hint(plugin: Plugin, load: Load) -> None:
    user = plugin.user(command="sh", args=["-c", "echo run: login first >&2; exit 3"])
    with pytest.raises(ConfigError, match=r"exec plugin sh failed: process returned 3\. run: login first"):
        load(user).credentials.current()
    user = plugin.user(command="no-such-plugin-here", installHint="pip install it\n")
    with pytest.raises(ConfigError, match="no-such-plugin-here was not found: pip install it"):
        load(user).credentials.current()
    plugin.path.chmod(0o600)
    with pytest.raises(ConfigError, match="can't be started: Permission denied"):
        load(plugin.user()).credentials.current()
