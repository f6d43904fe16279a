"""Converts kubeconfig files to a ClusterConfig.

The module merges the files, chooses context, cluster and user, and checks every field. It does not use the `kubernetes`
package to read the files: that package expands YAML aliases without limit, and its errors show parts of the file,
including tokens. The errors of this module name the file, the entry and the field, and never show a value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from tfoperator.base.clock import Clock
from tfoperator.base.yamldata.reader import YamlBoundsError, YamlError, read_value_of_file
from tfoperator.kube.config.cluster import ClusterConfig, check_server, is_loopback, is_plain
from tfoperator.kube.config.credentials import (
    Credentials,
    IssuedCredential,
    IssuedCredentials,
    StaticCredentials,
    TokenFile,
    bearer,
)
from tfoperator.kube.config.oidc import auth_provider
from tfoperator.kube.config.plugins import exec_plugin
from tfoperator.kube.config.tls import ClientCertificate, TlsOptions
from tfoperator.kube.config.written import ChangeableParts, WrittenCredentials, WrittenParts, stamps_of
from tfoperator.kube.protocol.errors import ConfigError

_SAFE_IN_HEADER_NAME = "!#$&'*+^`|"
"""The characters that need no percent-encoding in the name of a header, except those that `quote` never encodes."""

_Sections = dict[str, list[tuple[dict[str, Any], Path]]]
"""The entries of each section, each entry with its file. If entries have the same name, the first entry wins, as in
kubectl.
"""


def read_kubeconfig(paths: list[Path], context: str | None = None, clock: Clock | None = None) -> ClusterConfig:
    """Return the configuration of existing files, for the context `context` (by default the current-context).

    Raises ConfigError if a file can't be used, or if the context, its cluster or its user is missing or invalid.
    """
    stamps = stamps_of(paths)  # before the files are read: a change during the reading counts as a later change
    merged, current = _merge(paths)
    names = " and ".join(map(str, paths))
    chosen = context or current
    if not chosen:
        raise ConfigError(
            f"kubeconfig {names} has no current-context: choose one with --context or `kubectl config use-context` "
            f"({_existing_names(merged, 'contexts')})"
        )

    def loader(entries: _Sections) -> _Loader:
        return _Loader(entries, _Entry.find(entries, "contexts", chosen, f"kubeconfig {names}"), clock)

    first = loader(merged)
    written = first.written()
    parts = WrittenParts(paths, lambda: loader(_merge(paths)[0]).written(), written=written, stamps=stamps, clock=clock)
    return first.config(parts)


def _merge(paths: list[Path]) -> tuple[_Sections, str]:
    """Return the entries of the files in order, each with its file, and the first current-context that a file sets.

    Skip empty files, as kubectl does: a tool may have created a file that it has not filled yet. Raise ConfigError if
    every file is empty.
    """
    merged: _Sections = {section: [] for section in ("clusters", "contexts", "users")}
    current = ""
    contents = [(path, content) for path in paths if (content := _content(path)) is not None]
    if not contents:
        raise ConfigError(f"kubeconfig {' and '.join(map(str, paths))} is empty")
    for path, content in contents:
        current = current or str(content.get("current-context") or "")
        for section, merged_entries in merged.items():
            entries = content.get(section) or []
            if not isinstance(entries, list):
                raise _no_kubeconfig(path)
            for entry in entries:
                if not isinstance(entry, dict) or entry.get("name") is None:
                    raise _no_kubeconfig(path)
                merged_entries.append((entry, path))
    return merged, current


def _content(path: Path) -> dict[str, Any] | None:
    """Return the content of a kubeconfig file; None if the file is empty."""
    try:
        content = read_value_of_file(path, str(path), unique_keys=False)
    except OSError as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
    except YamlBoundsError as error:
        raise ConfigError(f"kubeconfig {error}") from None
    except YamlError as error:
        # The message of the YamlError is left out, because it quotes the file, which may contain tokens.
        column = "" if error.column is None else f", column {error.column}"
        where = "" if error.line is None else f" at line {error.line}{column}"
        raise ConfigError(f"kubeconfig {path} is not valid YAML{where}") from None
    if content is not None and not isinstance(content, dict):
        raise _no_kubeconfig(path)
    return content


def _no_kubeconfig(path: Path) -> ConfigError:
    return ConfigError(f"{path} is not a kubeconfig: clusters, contexts and users must be lists of entries with a name")


def _existing_names(merged: _Sections, section: str) -> str:
    names = sorted({str(entry["name"]) for entry, _ in merged[section]})
    return f"known {section}: {', '.join(names)}" if names else f"there are no {section}"


class _Entry:
    """One named entry of a kubeconfig: its fields, and the data that error messages and relative paths need."""

    def __init__(self, kind: str, name: str, fields: Mapping[str, Any], path: Path) -> None:
        self.kind, self.name, self.fields, self.path = kind, name, fields, path

    @classmethod
    def find(cls, merged: _Sections, section: str, name: str, asked_by: str) -> _Entry:
        """Find an entry by name.

        `asked_by` describes the entry that refers to this name. If no entry has this name, the ConfigError names
        `asked_by`.
        """
        kind = section.removesuffix("s")
        for entry, path in merged[section]:
            if entry["name"] == name:
                fields = entry.get(kind)
                if not isinstance(fields, dict):
                    raise ConfigError(f"kubeconfig {path}: {kind} {name!r} has no field `{kind}` with its settings")
                return cls(kind, name, fields, path)
        raise ConfigError(f"{asked_by} needs {kind} {name!r}, which does not exist: {_existing_names(merged, section)}")

    @property
    def where(self) -> str:
        return f"kubeconfig {self.path}, {self.kind} {self.name!r}"

    def text(self, field: str) -> str:
        """Return a string field, or "" if the field is absent. Raise ConfigError if the field is not a string."""
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.where}: {field} must be a string: put it in quotes")
        return value

    def material(self, field: str) -> str | bytes:
        """Return PEM data as bytes, or the path of a PEM file.

        The data are in the base64 field `{field}-data`. If this field is not set, the path is in `field`.
        """
        if data := self.text(f"{field}-data"):
            try:
                # Line breaks in the base64 text are allowed, as for kubectl: users write it as a block in YAML.
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise ConfigError(f"{self.where}: {field}-data must be base64") from None
        return self.file(field)

    def file(self, field: str) -> str:
        """Return the path of the file that a field names, or "" if the field is absent.

        A relative path is relative to the folder of the kubeconfig. Raise ConfigError if the file does not exist.
        """
        name = self.text(field)
        if not name:
            return ""
        path = self.path.parent / name
        if not path.is_file():
            raise ConfigError(f"{self.where}: {field} names {path}, but this file does not exist")
        return str(path)


class _Loader:
    """Turns one context, its cluster and its user into a ClusterConfig."""

    def __init__(self, merged: _Sections, context: _Entry, clock: Clock | None) -> None:
        self._merged = merged
        self._context = context
        self._clock = clock
        cluster = context.text("cluster")
        if not cluster:
            raise ConfigError(f"{context.where}: cluster is missing")
        self._cluster = _Entry.find(merged, "clusters", cluster, context.where)
        user = context.text("user")
        self._user = _Entry.find(merged, "users", user, context.where) if user else None

    def written(self) -> ChangeableParts:
        """Return the user's credentials and the CA that the kubeconfig itself contains."""
        user, authorization = self._user, ""
        if user is not None and (token := user.text("token")):
            authorization = bearer(token, f"{user.where}: token")
        elif user is not None and (name := user.text("username")):
            pair = f"{name}:{user.text('password')}".encode()
            authorization = "Basic " + base64.b64encode(pair).decode("ascii")
        return ChangeableParts(
            IssuedCredential(authorization, self._certificate()), self._cluster.material("certificate-authority")
        )

    def config(self, parts: WrittenParts) -> ClusterConfig:
        cluster, source = self._cluster, self._context.where
        server = cluster.text("server").rstrip("/")
        check_server(server, cluster.where)
        config = ClusterConfig(
            server=server,
            namespace=self._context.text("namespace") or "default",
            tls=self._tls(parts),
            credentials=self._credentials(server, parts),
            headers=_impersonation(self._user) if self._user else (),
            proxy_url=cluster.text("proxy-url"),
            source=source,
        )
        config.check()
        return config

    def _certificate(self) -> ClientCertificate | None:
        user = self._user
        if user is None:
            return None
        chain, key = user.material("client-certificate"), user.material("client-key")
        if bool(chain) != bool(key):
            given, missing = ("client-certificate", "client-key") if chain else ("client-key", "client-certificate")
            raise ConfigError(f"{user.where}: {given} is set, so {missing} must be set, too")
        return ClientCertificate(chain, key) if chain else None

    def _tls(self, parts: WrittenParts) -> TlsOptions:
        cluster = self._cluster
        insecure = cluster.fields.get("insecure-skip-tls-verify", False)
        if not isinstance(insecure, bool):
            raise ConfigError(f"{cluster.where}: insecure-skip-tls-verify must be true or false")
        written = parts.now()
        return TlsOptions(
            ca=written.ca,
            latest_ca=(lambda: parts.now().ca) if written.ca else None,
            verify=not insecure,
            server_name=cluster.text("tls-server-name"),
            client_certificate=written.credential.certificate,
        )

    def _credentials(self, server: str, parts: WrittenParts) -> Credentials:
        user = self._user
        # A server at http:// on this machine is `kubectl proxy`, or another program on its port. It needs no
        # credentials and, as with kubectl, gets none. For other http:// servers ClusterConfig raises the error.
        if user is None or (is_plain(server) and is_loopback(urlsplit(server).hostname or "")):
            return StaticCredentials()
        if path := user.file("tokenFile"):
            return TokenFile(path, clock=self._clock)
        if user.text("token"):
            return WrittenCredentials(parts)
        if user.fields.get("exec") is not None:
            authority = lambda: parts.now().ca  # noqa: E731
            issue = exec_plugin(user.fields["exec"], user.where, user.path.parent, self._cluster.fields, authority)
            return IssuedCredentials(issue, clock=self._clock)
        if user.fields.get("auth-provider") is not None:
            issue = auth_provider(user.fields["auth-provider"], user.where)
            return IssuedCredentials(issue, clock=self._clock)
        if parts.now().credential == IssuedCredential():
            return StaticCredentials()
        return WrittenCredentials(parts)


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    """Return the headers for `as`, `as-uid`, `as-groups` and `as-user-extra`.

    Without these headers, the client would act with the rights of the authenticated user, and not with the rights of
    the impersonated user.
    """
    headers = []
    for field, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if value := user.text(field):
            headers.append((header, value))
    headers += [("Impersonate-Group", str(group)) for group in user.fields.get("as-groups") or ()]
    for key, values in (user.fields.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{_in_header_name(str(key))}", str(value)) for value in values]
    if any(not text.isprintable() or not text.isascii() for pair in headers for text in pair):
        raise ConfigError(
            f"{user.where}: as, as-uid, as-groups or as-user-extra contains a character that is not allowed in an HTTP "
            "header"
        )
    return tuple(headers)


def _in_header_name(key: str) -> str:
    """Percent-encode the characters that the name of an HTTP header can't contain, and `%`. API servers decode them."""
    return quote(key, safe=_SAFE_IN_HEADER_NAME)
