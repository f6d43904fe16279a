"""From kubeconfig files to a ClusterConfig: merging, choosing context, cluster and user, checking every field.

The `kubernetes` package reads and merges the files. The fields are read and checked here, because its own errors
show parts of the file, tokens included: ours name file, entry and field, and no value.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfoperator.clock import Clock
from tfoperator.kube.cluster import ClusterConfig, check_server
from tfoperator.kube.credentials import Credentials, IssuedCredentials, StaticCredentials, TokenFile, bearer
from tfoperator.kube.errors import ConfigError
from tfoperator.kube.plugins import auth_provider, exec_plugin
from tfoperator.kube.tls import ClientCertificate, TlsOptions

__all__ = ["read_kubeconfig"]


def read_kubeconfig(paths: list[Path], context: str | None = None, clock: Clock | None = None) -> ClusterConfig:
    """The configuration in some existing files, for `context` or else the current one. Raises ConfigError."""
    merged, current = _merge(paths)
    names = " and ".join(map(str, paths))
    chosen = context or current
    if not chosen:
        raise ConfigError(
            f"kubeconfig {names} has no current-context: choose one with --context or `kubectl config use-context` "
            f"({_known(merged, 'contexts')})"
        )
    entry = _Entry.find(merged, "contexts", chosen, f"kubeconfig {names}")
    return _Loader(merged, entry, clock).config()


def _merge(paths: list[Path]) -> tuple[Any, str]:
    """The files merged by the package, each entry knowing its file, and the first current-context."""
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigMerger

    merger = KubeConfigMerger("")
    for path in paths:
        try:
            merger.load_config(str(path))
        except OSError as error:
            raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror}") from error
        except yaml.YAMLError as error:
            # The rest of what YAML says quotes the file.
            mark = getattr(error, "problem_mark", None)
            where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise ConfigError(f"kubeconfig {path} is not valid YAML{where}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"kubeconfig {path} is no text") from None
        except ConfigException:
            raise ConfigError(f"kubeconfig {path} is empty, or has entries without a name") from None
        except (AttributeError, KeyError, TypeError):
            raise _no_kubeconfig(path) from None
        except RecursionError:
            raise ConfigError(f"kubeconfig {path} is nested too deeply") from None
        _check_sections(path, merger.config_files[str(path)])
    # The package lets the last file win; for kubectl, as for everything else in these files, it is the first.
    currents = [config.get("current-context") for config in merger.config_files.values()]
    return merger.config, next((str(current) for current in currents if current), "")


def _check_sections(path: Path, content: Any) -> None:
    for section in ("clusters", "contexts", "users"):
        entries = content.get(section) or []
        if not isinstance(entries, list) or not all(isinstance(e, dict) and e.get("name") is not None for e in entries):
            raise _no_kubeconfig(path)


def _no_kubeconfig(path: Path) -> ConfigError:
    return ConfigError(
        f"kubeconfig {path} is no kubeconfig: clusters, contexts and users must be lists of entries with a name"
    )


def _known(merged: Any, section: str) -> str:
    names = sorted(str(entry["name"]) for entry in merged.value.get(section) or [])
    return f"known {section}: {', '.join(names)}" if names else f"there are no {section}"


class _Entry:
    """One named entry of a kubeconfig: its fields, and what is needed to complain about one and to find files."""

    def __init__(self, kind: str, name: str, fields: Mapping[str, Any], path: Path) -> None:
        self.kind, self.name, self.fields, self.path = kind, name, fields, path

    @classmethod
    def find(cls, merged: Any, section: str, name: str, asked_by: str) -> _Entry:
        """Find an entry by name; ConfigError, naming who asked for it, if it is missing or malformed."""
        kind = section.removesuffix("s")
        for entry in merged.value.get(section) or []:
            if entry["name"] == name:
                fields = entry.value.get(kind)
                if not isinstance(fields, dict):
                    raise ConfigError(
                        f"kubeconfig {entry.path}: {kind} {name!r} has no field `{kind}` with its settings"
                    )
                return cls(kind, name, fields, Path(entry.path))
        raise ConfigError(f"{asked_by} asks for {kind} {name!r}, which does not exist: {_known(merged, section)}")

    @property
    def where(self) -> str:
        return f"kubeconfig {self.path}, {self.kind} {self.name!r}"

    def text(self, field: str) -> str:
        """A string field, "" if absent; ConfigError if it is something else."""
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.where}: {field} must be a string (quote it)")
        return value

    def material(self, field: str) -> str | bytes:
        """PEM from the field `{field}-data` (decoded) or the path in `field`; the data goes first."""
        if data := self.text(f"{field}-data"):
            try:
                # Wrapped lines are fine, as for kubectl: in YAML a block of them looks natural.
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise ConfigError(f"{self.where}: {field}-data is not base64") from None
        return self.file(field)

    def file(self, field: str) -> str:
        """A path, relative ones to the file they are written in; ConfigError if nothing is there."""
        name = self.text(field)
        if not name:
            return ""
        path = self.path.parent / name
        if not path.is_file():
            raise ConfigError(f"{self.where}: {field} names {path}, which is not there (or no file)")
        return str(path)


class _Loader:
    """Turns one context, its cluster and its user into a ClusterConfig."""

    def __init__(self, merged: Any, context: _Entry, clock: Clock | None) -> None:
        self._merged = merged
        self._context = context
        self._clock = clock
        cluster = context.text("cluster")
        if not cluster:
            raise ConfigError(f"{context.where}: cluster is missing")
        self._cluster = _Entry.find(merged, "clusters", cluster, context.where)
        user = context.text("user")
        self._user = _Entry.find(merged, "users", user, context.where) if user else None

    def config(self) -> ClusterConfig:
        cluster, source = self._cluster, self._context.where
        server = cluster.text("server").rstrip("/")
        check_server(server, cluster.where)
        config = ClusterConfig(
            server=server,
            namespace=self._context.text("namespace") or "default",
            tls=self._tls(),
            credentials=self._credentials(self._user) if self._user else StaticCredentials(),
            headers=_impersonation(self._user) if self._user else (),
            proxy_url=cluster.text("proxy-url"),
            source=source,
        )
        config.check()
        return config

    def _tls(self) -> TlsOptions:
        cluster, user, certificate = self._cluster, self._user, None
        if user is not None:
            chain, key = user.material("client-certificate"), user.material("client-key")
            if bool(chain) != bool(key):
                given, missing = ("client-certificate", "client-key") if chain else ("client-key", "client-certificate")
                raise ConfigError(f"{user.where}: there is a {given}, but no {missing}")
            certificate = ClientCertificate(chain, key) if chain else None
        insecure = cluster.fields.get("insecure-skip-tls-verify", False)
        if not isinstance(insecure, bool):
            raise ConfigError(f"{cluster.where}: insecure-skip-tls-verify must be true or false")
        return TlsOptions(
            ca=cluster.material("certificate-authority"),
            verify=not insecure,
            server_name=cluster.text("tls-server-name"),
            client_certificate=certificate,
        )

    def _credentials(self, user: _Entry) -> Credentials:
        if path := user.file("tokenFile"):
            return TokenFile(path, clock=self._clock)
        if token := user.text("token"):
            return StaticCredentials(bearer(token, f"{user.where}: token"))
        if user.fields.get("exec") is not None:
            issue = exec_plugin(user.fields["exec"], user.where, user.path.parent, self._cluster.fields)
            return IssuedCredentials(issue, clock=self._clock)
        if user.fields.get("auth-provider") is not None:
            issue = auth_provider(user.fields["auth-provider"], user.where)
            return IssuedCredentials(issue, clock=self._clock)
        if name := user.text("username"):
            pair = f"{name}:{user.text('password')}".encode()
            return StaticCredentials("Basic " + base64.b64encode(pair).decode("ascii"))
        return StaticCredentials()


def _impersonation(user: _Entry) -> tuple[tuple[str, str], ...]:
    """The headers for `as`, `as-uid`, `as-groups` and `as-user-extra`; ignoring them would grant more, not less."""
    headers = []
    for field, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if value := user.text(field):
            headers.append((header, value))
    headers += [("Impersonate-Group", str(group)) for group in user.fields.get("as-groups") or ()]
    for key, values in (user.fields.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    if any(not text.isprintable() or not text.isascii() for pair in headers for text in pair):
        raise ConfigError(f"{user.where}: a user or group to impersonate holds characters that no header can carry")
    return tuple(headers)
