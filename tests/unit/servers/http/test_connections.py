"""The events that close the socket of a connection."""

import asyncio
import socket
import ssl
from pathlib import Path

from tests.unit.kube.conftest import Certificates
from tfoperator.servers.http.connections import Connection


def test_a_socket_keeps_its_number_until_asyncio_closes_it(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    certificates.make("server", "IP:127.0.0.1")
    trusting = ssl.create_default_context(cafile=str(certificates.ca))

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        client, plain = socket.socketpair()
        connection = Connection(plain, "client", loop.time())
        connection.handed_over = True
        asked = loop.create_connection(asyncio.Protocol, sock=client, ssl=trusting, server_hostname="127.0.0.1")
        accepted = loop.connect_accepted_socket(
            asyncio.Protocol, plain, ssl=certificates.server_context(), ssl_shutdown_timeout=0.2
        )
        (theirs, _), (connection.transport, _) = await asyncio.gather(asked, accepted)
        theirs.pause_reading()  # it does not announce that it has ended, too
        for _ in range(2):  # asyncio's own transport of TLS cannot be aborted after that
            connection.transport.close()
        connection.close()
        others = [socket.socket() for _ in range(20)]
        for other in others:  # one of them would have its number
            loop.add_reader(other, lambda: None)
            loop.remove_reader(other)
            other.close()
        while plain.fileno() != -1:
            await asyncio.sleep(0.01)
        theirs.abort()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(serve(), timeout=20))
