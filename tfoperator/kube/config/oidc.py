"""Gets credentials from OpenID Connect issuers (`auth-provider`), with the `kubernetes` package.

The package is imported only when needed. Its messages about a broken kubeconfig are never passed on, because they quote
the file, including tokens.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfoperator.kube.config.credentials import IssuedCredential
from tfoperator.kube.protocol.errors import ConfigError


class LoaderTarget:
    """The object that the loaders of the `kubernetes` package fill in.

    The package's own class would import its HTTP client.
    """

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert: str | None = None
        self.api_key: dict[str, str] = {}
        self.refresh_api_key_hook: Callable[[Any], None] | None = None


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
