"""The server certificate shared by all replicas, kept in a Secret, and renewed without a failed request."""

from tfoperator.servers.keyring.keyring import Keyring, decode_keyring, encode_keyring, is_due, new_keyring, renewed
from tfoperator.servers.keyring.secret import ForeignSecret, KeyringSecret, StoredKeyring

__all__ = [
    "ForeignSecret",
    "Keyring",
    "KeyringSecret",
    "StoredKeyring",
    "decode_keyring",
    "encode_keyring",
    "is_due",
    "new_keyring",
    "renewed",
]
