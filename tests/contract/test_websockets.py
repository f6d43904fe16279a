"""Watches and logs over WebSockets, as clients that run in browsers (Headlamp) request them."""

import json
import ssl
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import websocket
import yaml

from tests.contract.conftest import ApiServer
from tests.contract.nodes import NODE, Node
from tests.contract.support import CONFIG_MAPS, PODS, Space, config_map
from tests.support.eventually import eventually
from tests.support.manifests import pod

BASE64 = "base64.binary.k8s.io"
BINARY = "binary.k8s.io"


@contextmanager
def opened(space: Space, path: str, *protocols: str, **options: Any) -> Iterator[websocket.WebSocket]:
    """A WebSocket with the user's token, as the server of Headlamp opens it."""
    config = yaml.safe_load(space.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    token = config["users"][0]["user"]["token"]
    socket = websocket.create_connection(
        f"wss://{server.netloc}{path}",
        timeout=100,
        header=[f"Authorization: Bearer {token}"],
        subprotocols=list(protocols) or None,
        sslopt={"cert_reqs": ssl.CERT_NONE},
        **{"origin": f"https://{server.netloc}", **options},
    )
    try:
        yield socket
    finally:
        socket.close()
        socket.shutdown()


def refusal(space: Space, path: str, *protocols: str, **options: Any) -> int:
    with (
        pytest.raises(websocket.WebSocketBadStatusException) as caught,
        opened(space, path, *protocols, **options),
    ):
        pass
    return int(caught.value.status_code)


def event(socket: websocket.WebSocket) -> tuple[int, str, str]:
    """The opcode of a message, and the type and name in the event that it contains."""
    opcode, data = socket.recv_data()
    change = json.loads(data)
    return opcode, change["type"], change["object"]["metadata"]["name"]


@pytest.mark.parametrize("protocols", [(), (BASE64,), ("of.anybody",)])
def test_a_watch_sends_each_event_as_a_text_and_accepts_any_single_protocol(
    space: Space, protocols: tuple[str, ...]
) -> None:
    start = space.page(CONFIG_MAPS).resource_version
    path = f"{space.path(CONFIG_MAPS)}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3Da"
    with opened(space, path, *protocols) as socket:
        assert socket.getsubprotocol() == (protocols[0] if protocols else None)
        space.create(CONFIG_MAPS, config_map("a"))
        space.create(CONFIG_MAPS, config_map("b"))
        space.delete(CONFIG_MAPS, "a")
        text = websocket.ABNF.OPCODE_TEXT
        assert [event(socket), event(socket)] == [(text, "ADDED", "a"), (text, "DELETED", "a")]


def test_a_watch_ends_after_its_timeout(space: Space) -> None:
    with opened(space, f"{space.path(CONFIG_MAPS)}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Da") as socket:
        assert socket.recv_data(control_frame=True)[0] == websocket.ABNF.OPCODE_CLOSE


def test_a_watch_is_refused_as_kubernetes_refuses_it(space: Space) -> None:
    watch = f"{space.path(CONFIG_MAPS)}?watch=1"
    assert refusal(space, watch, suppress_origin=True) == 403
    assert refusal(space, watch, BASE64, BINARY) == 400
    assert refusal(space, f"{watch}&labelSelector=%3D%3D") == 400
    assert refusal(space, "/api/v1/absent?watch=1") == 404


def test_a_log_begins_with_an_empty_message_and_is_sent_in_the_protocol_of_the_client(
    api_server: ApiServer, space: Space, tmp_path: Path
) -> None:
    script = "echo one; echo two"
    with Node(api_server, space, tmp_path):
        body = pod("p", containers=[{"name": "main", "image": "example.invalid/x:1", "command": ["sh", "-c", script]}])
        space.create(PODS, {**body, "spec": {**body["spec"], "nodeName": NODE, "restartPolicy": "Never"}})
        eventually(lambda: space.get(PODS, "p")["status"]["phase"] == "Succeeded", what="the end of the pod")
        path = f"{space.path(PODS, 'p', 'log')}?container=main&follow=true"
        for protocols, chosen, opcode in (
            ((), None, websocket.ABNF.OPCODE_BINARY),
            (("of.anybody", BINARY), BINARY, websocket.ABNF.OPCODE_BINARY),
            ((BASE64, BINARY), BASE64, websocket.ABNF.OPCODE_TEXT),
        ):
            with opened(space, path, *protocols, suppress_origin=True) as socket:
                assert socket.getsubprotocol() == chosen
                assert socket.recv_data() == (opcode, b"")
                received = b""
                while (message := socket.recv_data(control_frame=True))[0] == opcode:
                    received += b64decode(message[1], validate=True) if chosen == BASE64 else message[1]
                assert received == b"one\ntwo\n"
                assert message[0] == websocket.ABNF.OPCODE_CLOSE
        assert refusal(space, path, "of.anybody") == 403
        assert refusal(space, f"{path}&tailLines=x") == 400
