"""The Secret with the keyring of all replicas of the operator. The first replica creates the Secret.

If two replicas write at the same time, the API server refuses the second write: a create fails because the name exists,
and an update fails because its resourceVersion is outdated. The replica whose write was refused then reads the keyring
that the other replica wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

import msgspec

from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, NotFoundError
from tfoperator.kube.protocol.resources import SECRETS
from tfoperator.kube.protocol.verbs import ApiClient, decoder
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.servers.certificates.pem import CertificateError
from tfoperator.servers.keyring.keyring import Keyring, decode_keyring, encode_keyring, is_due, new_keyring, renewed

logger = logging.getLogger(__name__)

_TYPE = "kubernetes.io/tls"
_ATTEMPTS = 5


class ForeignSecret(Exception):
    """The Secret that should contain the keyring was not created by the operator. The message proposes a next step."""


class _Secret(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, bytes] | None = None  # msgspec decodes the base64 of the JSON

    def __repr__(self) -> str:
        return f"_Secret({self.metadata.name!r})"


_decode = decoder(_Secret)


class KeyringSecret:
    """Reads and writes the Secret with the keyring. Thread-safe. Raises ForeignSecret, and the client's KubeError."""

    def __init__(self, client: ApiClient, namespace: str, name: str, *, option: str = "--webhook-secret") -> None:
        """`option` is the name of the option that sets the Secret's name. Messages contain it."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._option = option

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    def current(
        self, hosts: Collection[str], validity: timedelta, trusted: tuple[bytes, ...], now: Callable[[], datetime]
    ) -> Keyring:
        """Return the keyring of all replicas from the Secret.

        Create the Secret if it is missing. Renew the keyring if it is due. Replace a keyring that can't be decoded; the
        new keyring also trusts the authorities in `trusted`. Raises CertificateError if other writers always write
        first.
        """
        for _ in range(_ATTEMPTS):
            moment, stored = now(), self.read()
            keyring = None
            try:
                keyring = None if stored is None else decode_keyring(stored.data or {})
            except CertificateError as error:
                logger.warning("the Secret %s is written again: %s", self, error)
            if keyring is None:
                made = new_keyring(hosts, moment, validity, trusted)
            elif is_due(keyring, hosts, moment):
                made = renewed(keyring, hosts, moment, validity)
            else:
                return keyring
            if self.write(made, over=stored):
                logger.info("created a certificate, valid until %s, and wrote it to Secret %s", made.about.ends, self)
                return made
        raise CertificateError(f"the Secret {self} changes again and again: perhaps another operator uses it")

    def read(self) -> _Secret | None:
        """Return the current state of the Secret. Return None if there is no such Secret."""
        try:
            secret = self._client.get(SECRETS, self._namespace, self._name, _decode)
        except NotFoundError:
            return None
        if secret.type != _TYPE:
            raise ForeignSecret(
                f"the Secret {self} has type {secret.type}, not {_TYPE}, so the operator did not create it: delete "
                f"this Secret, or name another Secret with {self._option}"
            )
        return secret

    def write(self, keyring: Keyring, over: _Secret | None) -> bool:
        """Create the Secret if `over` is None, otherwise replace the state `over`, which `read` returned.

        Return False, and write nothing, if another replica has written first.
        """
        metadata: dict[str, object] = {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app.kubernetes.io/name": "tfoperator", "app.kubernetes.io/managed-by": "tfoperator"},
        }
        if over is not None:
            metadata["resourceVersion"] = over.metadata.resource_version
        body: Mapping[str, object] = {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": metadata,
            "type": _TYPE,
            "data": encode_keyring(keyring),
        }
        try:
            if over is None:
                self._client.create(SECRETS, self._namespace, body, _decode)
            else:
                self._client.replace(SECRETS, self._namespace, self._name, body, _decode)
        except AlreadyExistsError:
            return False
        except (ConflictError, NotFoundError):
            if over is None:
                raise  # the namespace does not exist, or is being deleted
            return False
        return True
