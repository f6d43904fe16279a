from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.kube.conftest import MakeClient, Serve
from tests.unit.kube.http.creations import Creator, after_warming, warm
from tests.unit.kube.server import Handler, ScriptedServer

Creating = Callable[..., tuple[ScriptedServer, Creator]]


@pytest.fixture
def creating(serve: Serve, client_for: MakeClient) -> Iterator[Creating]:
    """Starts servers, and what creates on them: `creating(handler, {"tls": ...}, warmed=True, parallelism=1)`.

    With `warmed` it has connections, and the handler gets what comes after that.
    """
    made: list[Creator] = []

    def make(
        handler: Handler, config: dict[str, Any] | None = None, *, tls: Any = None, warmed: bool = False, **options: Any
    ) -> tuple[ScriptedServer, Creator]:
        server = serve(after_warming(handler) if warmed else handler, tls)
        options = {"parallelism": 4, **options}
        made.append(Creator(client_for(server.url, config, **options), options["parallelism"]))
        if warmed:
            warm(made[-1])
        return server, made[-1]

    yield make
    for creator in made:
        creator.close()
