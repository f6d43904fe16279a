"""Gets credentials from exec plugins and from OpenID Connect issuers, with the `kubernetes` package.

The package is imported only when needed. Its messages about a broken kubeconfig are never passed on, because they quote
the file, including tokens.
"""

from __future__ import annotations

import base64
import inspect
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.kube.config.credentials import IssuedCredential, bearer
from tfoperator.kube.config.tls import ClientCertificate
from tfoperator.kube.protocol.errors import ConfigError

_STDERR_SHOWN = 500  # characters of a plugin's stderr in an error
_OWN_EXTENSION = "client.authentication.k8s.io/exec"
"""The name of the extension in a kubeconfig's cluster that contains data for plugins."""


class LoaderTarget:
    """The object that the loaders of the `kubernetes` package fill in.

    The package's own class would import its HTTP client.
    """

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert: str | None = None
        self.api_key: dict[str, str] = {}
        self.refresh_api_key_hook: Callable[[Any], None] | None = None


def exec_plugin(
    settings: Any, where: str, directory: Path, cluster: Mapping[str, Any]
) -> Callable[[], IssuedCredential]:
    """Return a function that runs a user's credential plugin; `settings` is the field `exec` of the kubeconfig.

    Error messages contain `where`, which names the user's entry. The plugin runs in `directory`, the folder of the
    kubeconfig, and receives the `cluster` if `provideClusterInfo` is set in `settings`. There is no time limit, because
    the plugin may wait for the user, for example in a browser.
    """
    if not isinstance(settings, dict) or not settings.get("command") or not settings.get("apiVersion"):
        raise ConfigError(f"{where}: exec must have command and apiVersion")
    where = f"{where}: exec plugin {settings['command']}"

    def issue() -> IssuedCredential:
        from kubernetes.config.config_exception import ConfigException

        try:
            status = _provider(settings, directory, cluster).run()
        except FileNotFoundError:
            hint = settings.get("installHint") or "install the program, or correct `command`"
            raise ConfigError(f"{where} was not found: {str(hint).strip()}") from None
        except OSError as error:
            raise ConfigError(f"{where} can't be started: {error.strerror}") from None
        except ConfigException as error:
            message = str(error).removeprefix("exec: ")[:_STDERR_SHOWN]
            raise ConfigError(f"{where} failed: {message}") from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ConfigError(
                f"{where}: the plugin's settings or answer do not have the form that the apiVersion requires"
            ) from None
        return _issued(status, where)

    return issue


def _provider(settings: dict[str, Any], directory: Path, cluster: Mapping[str, Any]) -> Any:
    """Return an object whose `run()` runs the plugin.

    Releases of `kubernetes` before 32 don't pass the cluster to the plugin. With such a release, this function adds the
    cluster.
    """
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    node = ConfigNode("exec", settings)
    if "cluster" in inspect.signature(ExecProvider).parameters:
        return ExecProvider(node, str(directory), ConfigNode("cluster", dict(cluster)))
    provider = ExecProvider(node, str(directory))
    if settings.get("provideClusterInfo"):
        provider.env = _ClusterInfo(provider.env, cluster)
    return provider


class _ClusterInfo(dict[str, str]):
    """The environment variables of a plugin. KUBERNETES_EXEC_INFO also contains the cluster, in client-go's format."""

    def __init__(self, variables: Mapping[str, str], cluster: Mapping[str, Any]) -> None:
        super().__init__(variables)
        self._cluster = dict(cluster)

    def __setitem__(self, name: str, value: str) -> None:
        if name == "KUBERNETES_EXEC_INFO":
            info = msgspec.json.decode(value)
            own = [
                extension
                for extension in self._cluster.get("extensions") or ()
                if extension.get("name") == _OWN_EXTENSION
            ]
            config = {"config": own[0]["extension"]} if own else {}
            value = msgspec.json.encode(
                {**info, "spec": {**info["spec"], "cluster": {**self._cluster, **config}}}
            ).decode()
        super().__setitem__(name, value)


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


def auth_provider(provider: Any, where: str) -> Callable[[], IssuedCredential]:
    """Return a function that gets an OpenID Connect credential with the `kubernetes` package.

    Tokens are refreshed in memory, and never written to the kubeconfig. The issuer's certificate is verified with the
    CA in the provider's settings. If the settings name no CA, the system's CA certificates are added to the settings:
    without a CA, the package would verify no certificate, and would send the refresh token and the client secret to any
    server.
    """
    name = provider.get("name") if isinstance(provider, dict) else None
    if name != "oidc":
        raise ConfigError(
            f"{where}: Kubernetes 1.26 has removed auth-provider {name!r}: use an exec plugin instead, e.g. "
            "gke-gcloud-auth-plugin or kubelogin"
        )
    settings = _trusting(provider.get("config"), where)
    # This dict is kept between calls, because the package stores refreshed tokens in it. It has no CA files, because
    # the package would copy them to temporary files.
    trimmed = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": ""}}],
        "users": [{"name": "u", "user": {"auth-provider": {"name": name, "config": settings}}}],
    }

    def issue() -> IssuedCredential:
        from kubernetes.config.kube_config import KubeConfigLoader

        target = LoaderTarget()
        try:
            KubeConfigLoader(trimmed).load_and_set(target)
        except Exception as error:  # noqa: BLE001 - OAuth, HTTP and parsing errors of three libraries, maybe with secrets
            reason = _why_untrusted(error)
            hint = _UNTRUSTED.format(reason) if reason else type(error).__name__
            raise ConfigError(f"{where}: refreshing the OpenID Connect token failed: {hint}") from None
        # This is the key's name since version 35.
        if not (token := target.api_key.get("BearerToken") or target.api_key.get("authorization")):
            raise ConfigError(f"{where}: auth-provider oidc has no usable id-token: log in again")
        return IssuedCredential(authorization=token, expires=_token_expiry(token))

    return issue


def _trusting(settings: Any, where: str) -> dict[str, Any]:
    """Return the settings of an OpenID Connect provider. If no CA is in the settings, add the system's CA file.

    Raises ConfigError if the settings are missing, if the issuer's URL is not https, or if a CA is needed and the
    system has no CA file.
    """
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: auth-provider oidc must have a config")
    issuer = settings.get("idp-issuer-url") or ""
    if issuer and not str(issuer).startswith("https://"):
        raise ConfigError(f"{where}: idp-issuer-url must be an https:// URL, because secrets are sent to it")
    own = [name for name in ("idp-certificate-authority-data", "idp-certificate-authority") if settings.get(name)]
    # The package would not verify the certificate if the setting were an empty string.
    trusting = {name: value for name, value in settings.items() if not name.startswith("idp-certificate-authority")}
    if own:
        return trusting | {own[0]: settings[own[0]]}
    system = ssl.get_default_verify_paths().cafile
    if not system:
        raise ConfigError(
            f"{where}: no authority is trusted for {issuer or 'the issuer'}: set idp-certificate-authority, or "
            "SSL_CERT_FILE"
        )
    return trusting | {"idp-certificate-authority": system}


_UNTRUSTED = (
    "the certificate of idp-issuer-url is not trusted ({}): set idp-certificate-authority to the issuer's authority, "
    "or add the authority to the system's trusted certificates (SSL_CERT_FILE)"
)


def _why_untrusted(error: BaseException | None) -> str:
    """Return the reason why OpenSSL does not trust a certificate; "" for other errors. The reason has no secrets.

    Python 3.13 and later checks certificates more strictly than Go, so it may refuse a certificate that kubectl
    accepts.
    """
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return ""


def _token_expiry(token: str) -> datetime | None:
    """Return when a JSON Web Token expires, if the token contains this time.

    The client does not verify the token: the server verifies it.
    """
    try:
        payload = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (IndexError, ValueError, KeyError, TypeError):
        return None
