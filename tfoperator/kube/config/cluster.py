"""Describes where an API server is and how to connect to it.

`load_config` returns this description, and `Client` takes it.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

from tfoperator.kube.config.credentials import Credentials, StaticCredentials
from tfoperator.kube.config.tls import TlsContexts, TlsOptions
from tfoperator.kube.protocol.errors import ConfigError


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an API server, how to verify the server, and how to authenticate to it. Its repr shows no secret.

    The constructor raises ConfigError for unusable values, and for credentials that would be sent over a network
    without encryption (`http://`).
    """

    server: str  # http(s)://host[:port][/path]
    namespace: str = "default"
    tls: TlsOptions = TlsOptions()
    credentials: Credentials = msgspec.field(default_factory=StaticCredentials)
    headers: tuple[tuple[str, str], ...] = ()  # sent with every request: impersonation
    proxy_url: str = ""  # "": from HTTPS_PROXY, HTTP_PROXY and NO_PROXY
    source: str = ""  # where this comes from, for messages

    def __post_init__(self) -> None:
        check_server(self.server, self.source or "ClusterConfig")
        if self.tls.ca and not self.tls.verify:
            raise ConfigError(
                f"{self.source}: a certificate authority and insecure-skip-tls-verify can't be used together: remove "
                "one of them"
            )
        anonymous = isinstance(self.credentials, StaticCredentials) and not self.credentials.current().authorization
        if not anonymous and is_plain(self.server) and not is_loopback(urlsplit(self.server).hostname or ""):
            raise ConfigError(
                f"{self.source or 'ClusterConfig'}: credentials are sent only to an https:// server, but the server "
                f"is {self.server}: without TLS, others on the network could read the credentials. Use https://, or "
                "a user without credentials"
            )

    def __repr__(self) -> str:
        return f"ClusterConfig(server={self.server!r}, namespace={self.namespace!r}, source={self.source!r})"

    def check(self) -> None:
        """For https, read every certificate now, so that a missing or unusable file raises ConfigError at the start."""
        if self.server.startswith("https:"):
            try:
                TlsContexts(self.tls).context()
            except ConfigError as error:
                raise ConfigError(f"{self.source}: {error}") from error


def is_plain(server: str) -> bool:
    """Return whether a server's URL is unencrypted (`http://`)."""
    return urlsplit(server).scheme == "http"


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address. Other names of this machine are not recognized."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_server(server: str, source: str) -> None:
    """Raise ConfigError unless `server` is a usable URL."""
    try:
        url = urlsplit(server)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        raise ConfigError(
            f"{source}: server must be a URL such as https://host:6443: its host or port is malformed"
        ) from None
    if url.username is not None or url.password is not None:
        raise ConfigError(
            f"{source}: the server's URL contains a user name or password: move them to the user's entry in the "
            "kubeconfig"
        )
    if not valid:
        # Before an @ there may be a password.
        raise ConfigError(
            f"{source}: server must be a URL such as https://host:6443, but is {server.rpartition('@')[2]!r}"
        )
