"""Runs the credential plugin of a kubeconfig's user (`exec`), in the same way as kubectl.

A plugin gets a terminal or nothing as its stdin. Otherwise it could read the manifest that is piped to a command, or
the requests of an agent. On a terminal, the plugin's stderr is shown at once, because the plugin may ask the user to
log in.
"""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.kube.config.credentials import IssuedCredential, bearer
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.protocol.errors import UNDECODABLE, ConfigError

_STDERR_SHOWN = 500  # characters of a plugin's stderr in an error
_OWN_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the extension in a kubeconfig's cluster that contains data for plugins."""
_CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
"""The fields of a kubeconfig's cluster that a plugin gets unchanged."""
_NEVER, _IF_AVAILABLE, _ALWAYS = "Never", "IfAvailable", "Always"
_STDIN, _STDERR = 0, 2  # file descriptors


class _Plugin(msgspec.Struct, frozen=True):
    """A plugin's settings. `where` names it in messages. `cluster` returns the data of the cluster for the plugin."""

    where: str
    api_version: str
    command: tuple[str, ...]
    variables: dict[str, str]
    interactive_mode: str
    hint: str
    cluster: Callable[[], dict[str, Any]] | None


def exec_plugin(
    settings: Any, where: str, directory: Path, cluster: Mapping[str, Any], authority: Callable[[], str | bytes]
) -> Callable[[], IssuedCredential]:
    """Return a function that runs a user's credential plugin; `settings` is the field `exec` of the kubeconfig.

    Error messages contain `where`, which names the user's entry. A relative path of the plugin is relative to
    `directory`, the folder of the kubeconfig. The plugin receives the `cluster`, and the certificates of its
    `authority`, if `provideClusterInfo` is set in `settings`. There is no time limit, because the plugin may wait for
    the user, for example in a browser.
    """
    if not isinstance(settings, dict) or not settings.get("command") or not settings.get("apiVersion"):
        raise ConfigError(f"{where}: exec must have command and apiVersion")
    where = f"{where}: exec plugin {settings['command']}"
    mode = settings.get("interactiveMode") or _IF_AVAILABLE
    if mode not in (_NEVER, _IF_AVAILABLE, _ALWAYS):
        raise ConfigError(f"{where}: interactiveMode must be {_NEVER}, {_IF_AVAILABLE} or {_ALWAYS}")
    try:
        plugin = _Plugin(
            where=where,
            api_version=str(settings["apiVersion"]),
            command=(_program(str(settings["command"]), directory), *map(str, settings.get("args") or ())),
            variables={str(pair["name"]): str(pair["value"]) for pair in settings.get("env") or ()},
            interactive_mode=mode,
            hint=str(settings.get("installHint") or "install the program, or correct `command`").strip(),
            cluster=(lambda: _cluster_info(cluster, authority())) if settings.get("provideClusterInfo") else None,
        )
    except (KeyError, TypeError):
        raise ConfigError(f"{where}: args must be a list, and env a list of entries with name and value") from None
    return lambda: _run(plugin)


def _program(command: str, directory: Path) -> str:
    """Return the path of the program. A command without a slash is searched in PATH."""
    return str((directory / command).absolute()) if "/" in command else command


def _cluster_info(cluster: Mapping[str, Any], authority: str | bytes) -> dict[str, Any]:
    """Return the cluster in the format of `client.authentication.k8s.io`. Raises OSError."""
    info = {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
    if authority:
        certificates = authority if isinstance(authority, bytes) else Path(authority).read_bytes()
        info["certificate-authority-data"] = b64encode(certificates).decode("ascii")
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == _OWN_EXTENSION:
            return info | {"config": extension.get("extension")}
    return info


def _run(plugin: _Plugin) -> IssuedCredential:
    """Run the plugin, and return the credential in its answer. Raises ConfigError."""
    interactive = plugin.interactive_mode != _NEVER and os.isatty(_STDIN)
    if plugin.interactive_mode == _ALWAYS and not interactive:
        raise ConfigError(f"{plugin.where} has interactiveMode Always, but stdin is no terminal: run it in a terminal")
    try:
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster()
        info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
        ended = subprocess.run(
            plugin.command,
            env={**os.environ, **plugin.variables, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if os.isatty(_STDERR) else subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError(f"{plugin.where} was not found: {plugin.hint}") from None
    except OSError as error:
        raise ConfigError(f"{plugin.where} can't be started: {error.strerror}") from None
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(
            f"{plugin.where}: its settings, or the cluster's, do not have the form of a kubeconfig"
        ) from None
    if ended.returncode != 0:
        said = (ended.stderr or b"").decode(errors="replace").strip()
        message = f"process returned {ended.returncode}{f'. {said}' if said else ''}"
        raise ConfigError(f"{plugin.where} failed: {message[:_STDERR_SHOWN]}")
    return _issued(_status(plugin, ended.stdout), plugin.where)


def _status(plugin: _Plugin, answer: bytes) -> Any:
    """Return the field `status` of a plugin's answer."""
    try:
        content = msgspec.json.decode(answer)
    except UNDECODABLE:
        raise ConfigError(f"the answer of {plugin.where} is not JSON") from None
    if not isinstance(content, dict) or content.get("kind") != "ExecCredential":
        raise ConfigError(f"the answer of {plugin.where} is not an ExecCredential")
    if content.get("apiVersion") != plugin.api_version:
        raise ConfigError(f"the answer of {plugin.where} does not have the apiVersion {plugin.api_version}")
    return content.get("status")


def _issued(status: Any, where: str) -> IssuedCredential:
    if not isinstance(status, dict):
        raise ConfigError(f"the answer of {where} has no status")
    token, chain, key = (status.get(field) for field in ("token", "clientCertificateData", "clientKeyData"))
    if not token and not (chain and key):
        raise ConfigError(f"the answer of {where} has neither a token nor clientCertificateData and clientKeyData")
    expires = None
    if stamp := status.get("expirationTimestamp"):
        try:
            expires = datetime.fromisoformat(stamp)
        except (TypeError, ValueError):
            raise ConfigError(
                f"the answer of {where} has an expirationTimestamp that is not a time of RFC 3339"
            ) from None
        expires = expires if expires.tzinfo else expires.replace(tzinfo=UTC)
    return IssuedCredential(
        authorization=bearer(str(token), f"{where}: the token in its answer") if token else "",
        certificate=ClientCertificate(str(chain).encode(), str(key).encode()) if chain and key else None,
        expires=expires,
    )
