"""Builds TLS contexts from files or bytes, and builds them again when the files change.

While a process runs, certificates are replaced: the service account's CA bundle, the kubelet's client certificate,
certificates of an exec plugin. So for each new connection the client checks whether the files have changed. If the
files have not changed, the client uses the cached TLS context. For a request on an existing connection, the files are
checked at most once a second.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import msgspec

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.base.files import file_mark
from tfoperator.base.private_files import temporary_file
from tfoperator.kube.protocol.errors import ConfigError


class ClientCertificate(msgspec.Struct, frozen=True):
    """A client's certificate chain and private key. Each is the path of a PEM file, or the PEM data as bytes."""

    certificate: str | bytes
    key: str | bytes

    def __repr__(self) -> str:
        return "ClientCertificate(...)"


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which a client verifies the server, and authenticates to the server.

    Without a CA the client trusts the system's CA certificates.
    """

    ca: str | bytes = ""  # path of a PEM file, or the PEM itself
    latest_ca: Callable[[], str | bytes] | None = None  # returns the present `ca`, if it may change
    verify: bool = True
    server_name: str = ""  # checked against the certificate (and sent as SNI) instead of the host's name
    client_certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return f"TlsOptions(verify={self.verify}, server_name={self.server_name!r})"


def _version_of(source: str | bytes) -> object:
    """Return a value that changes when the file at the path `source` changes (a constant for PEM data).

    Raises ConfigError if the file can't be examined.
    """
    if isinstance(source, bytes) or not source:
        return b""
    mark = file_mark(source)
    if mark is None:
        raise ConfigError(f"cannot read {source}: the file does not exist, or you have no permission for its folder")
    return mark


_RECHECK_SECONDS = 1.0
"""Seconds. A client that sends hundreds of requests within this time need not check the files for each request."""


class _Look(NamedTuple):
    """The result of the last check of the certificate files.

    The result has the TLS context, the client certificate in this context, and the time of the check (`at`) on the
    monotonic clock.
    """

    certificate: ClientCertificate | None
    at: float
    context: ssl.SSLContext


class TlsContexts:
    """Builds and caches the `ssl.SSLContext` for the given TLS options. Thread-safe."""

    def __init__(self, options: TlsOptions, *, clock: Clock | None = None) -> None:
        self._options = options
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards _cached
        self._cached: tuple[object, ssl.SSLContext] | None = None
        self._latest: _Look | None = None  # replaced as a whole; reading it takes no lock

    def recent_context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """Return the present context, for a request on an existing connection.

        If the files have changed, the result is a new context. A connection that was opened with an older context must
        not be used again. The files are checked at most once a second.
        """
        look, now = self._latest, self._clock.monotonic()
        if look is None or look.certificate is not certificate or now - look.at > _RECHECK_SECONDS:
            look = self._latest = _Look(certificate, now, self.context(certificate))
        return look.context

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """Return the context for a new connection; `certificate` overrides the certificate in the options.

        Raises ConfigError, which names the unusable file or field.
        """
        options = self._options
        certificate = certificate or options.client_certificate
        ca = options.ca if options.latest_ca is None else options.latest_ca()
        version: list[object] = [ca, _version_of(ca)]
        if certificate is not None:
            version += [certificate, _version_of(certificate.certificate), _version_of(certificate.key)]
        with self._lock:
            if self._cached is not None and self._cached[0] == version:
                return self._cached[1]
        context = _build(options, ca, certificate)
        with self._lock:
            self._cached = (version, context)
            self._latest = None  # else a cached context would close a connection that was made with the new context
        return context


def _build(options: TlsOptions, ca: str | bytes, certificate: ClientCertificate | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca:
        _load_ca(context, ca)
    else:
        context.load_default_certs()
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_ca(context: ssl.SSLContext, ca: str | bytes) -> None:
    # As Go programs do, trust an intermediate authority without its root: the ca.crt of some clusters has no root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    where = ca if isinstance(ca, str) else "certificate-authority-data"
    try:
        if isinstance(ca, str):
            context.load_verify_locations(cafile=ca)
        else:
            # Between the certificates, a bundle may have comments in any language.
            context.load_verify_locations(cadata=ca.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{where} contains no certificates in PEM form") from error
    except OSError as error:
        raise ConfigError(f"cannot read the certificate authority {where}: {error.strerror}") from error


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    # OpenSSL reads certificates only from files.
    with ExitStack() as opened:
        paths = [
            opened.enter_context(temporary_file(source)) if isinstance(source, bytes) else source
            for source in (certificate.certificate, certificate.key)
        ]
        try:
            # Without a password OpenSSL would ask for one on the terminal.
            context.load_cert_chain(paths[0], paths[1], password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            reason = (
                getattr(error, "reason", None) or "they must be in PEM form, without encryption, and belong together"
            )
            where = " and ".join(s for s in (certificate.certificate, certificate.key) if isinstance(s, str))
            raise ConfigError(
                f"client certificate and key{f' in {where}' if where else ''} can't be used: {reason}"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"cannot read the client certificate or key {error.filename}: {error.strerror}"
            ) from error
