"""The store of a URL."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.objects.files import FileObjects
from tfoperator.pipeline.objects.object_store import ObjectStore

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]*")


def is_url(place: str) -> bool:
    """Return whether it is a URL, not a path."""
    return "://" in place


def open_objects(url: str) -> ObjectStore:
    """Return the store of `s3://BUCKET/PREFIX` or `file:///DIRECTORY`. Makes no request. Raises ComponentError."""
    parts = urlsplit(url)
    if parts.username or parts.password or "@" in parts.netloc:
        raise ComponentError(
            "a URL of records can't have credentials in it, for URLs are shown and logged: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    if parts.query or parts.fragment:
        raise ComponentError(f"{url}: a place of records is s3://BUCKET/PREFIX, and nothing behind it")
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return FileObjects(Path(unquote(parts.path)))
    prefix = parts.path.strip("/")
    words = prefix.split("/") if prefix else []
    if parts.scheme != "s3" or not _BUCKET.fullmatch(parts.netloc):
        raise ComponentError(f"{url}: records are in a directory, or at s3://BUCKET/PREFIX or file:///DIRECTORY")
    if not _PREFIX.fullmatch(prefix) or any(word in ("", ".", "..") for word in words):
        raise ComponentError(f"{url}: a prefix is words of letters, digits, '-', '_' and '.', with '/' between them")
    if find_spec("boto3") is None:
        raise ComponentError("records in S3 need boto3: pip install 'tfoperator[s3]'")
    from tfoperator.pipeline.objects.s3 import S3Objects

    return S3Objects(parts.netloc, prefix)
