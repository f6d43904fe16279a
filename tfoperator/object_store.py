"""Objects in S3, Google Cloud Storage and Azure Blob Storage, by URL.

Only this module uses obstore, the library for these stores. A URL is `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or
`az://CONTAINER/PATH`, without credentials. The credentials come from the environment, or from the identity of the
machine or the pod. Failed requests are retried for a while. Requests and answers have time limits. The text of an error
contains no body of a response, and no query of a URL, because a query may contain a signature.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from tfoperator.base.beneath import LeadsOut, components
from tfoperator.base.urls import shown_url

SCHEMES = ("s3", "gs", "az")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_NO_PART = re.compile(r"/\.{1,2}/|[^/]//|[\0-\x1f]")

_REQUEST_TIME, _CONNECT_TIME = "30s", "5s"
_RETRIES, _RETRY_TIME = 4, timedelta(seconds=15)
"""A failed request is retried at most 4 times, and only within 15 s after its first attempt. An attempt takes 30 s at
most (`_REQUEST_TIME`). So an outage is reported after at most a minute.
"""
_PART_BYTES, _PARTS = 5 << 20, 2
"""Two limits for the memory of an upload: the size of its largest part, and the number of parts that are sent in
parallel.
"""

_MAX_FILES = 100_000
"""Maximum number of objects that are downloaded as one directory."""

_STATUS = re.compile(r"status code: (\d+)")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
_QUERY = re.compile(r"\?\S*")
_MAX_TEXT = 300
_LASTING = ("400", "401", "403", "404", "501")
_ADVICE = {
    "NoSuchBucket": "this bucket does not exist",
    "InvalidAccessKeyId": "the object store does not know this access key",
    "SignatureDoesNotMatch": "the secret key does not belong to the access key",
    "ExpiredToken": "the credentials have expired",
    "AccessDenied": "access is denied: the credentials must allow to list, read, write and delete below this URL",
    "401": "the credentials are not accepted",
    "403": "access is denied: the credentials must allow to list, read, write and delete below this URL",
}


class ObjectStoreError(OSError):
    """A request to an object store failed. `strerror` contains the URL and the reason.

    `passing` is true if a later attempt may succeed, for example because the store does not answer now.
    """

    def __init__(self, message: str, *, passing: bool = False) -> None:
        super().__init__(5, message)
        self.passing = passing

    def __str__(self) -> str:
        return str(self.strerror)


class ObjectChanged(ObjectStoreError):
    """The object store refused a write, because the object does not have the version that the write expects."""


class ObjectInfo(NamedTuple):
    """An object: its key below the URL, its size in bytes, and its version (`e_tag`).

    Each write changes the version.
    """

    key: str
    size: int
    modified: datetime
    version: dict[str, str]


def is_object_url(place: str | os.PathLike[str]) -> bool:
    """Return whether `place` is the URL of objects, and not a path or another URL."""
    scheme, separator, _ = str(place).partition("://")
    return bool(separator) and scheme in SCHEMES


class Objects:
    """The objects below a URL, which are found by their keys. Thread-safe. Each method may raise ObjectStoreError."""

    def __init__(self, url: str) -> None:
        """The constructor makes no request.

        Raises ObjectStoreError for an invalid URL, or if obstore is not installed.
        """
        try:
            parts = urlsplit(url)
        except ValueError:  # for example `s3://[x`
            parts = urlsplit("")
        path = parts.path.strip("/")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ObjectStoreError(
                "a URL of an object store must not have credentials, query or fragment, because it is shown and logged"
            )
        if not is_object_url(url) or not _BUCKET.fullmatch(parts.netloc) or _NO_PART.search(f"/{path}/"):
            raise ObjectStoreError(
                f"{shown_url(url)}: must have the form s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{'/' if path else ''}{path}"
        self._path = path
        self._store = _bucket(f"{parts.scheme}://{parts.netloc}", _endpoint())

    def __str__(self) -> str:
        return self.url

    def below(self, key: str) -> Self:
        """Return an `Objects` for the objects below a key: its URL is `URL/key`."""
        return type(self)(f"{self.url}/{key}")

    def find(self, key: str = "") -> ObjectInfo | None:
        """Return the data about an object; None if it does not exist.

        Without a key, this is the object at the URL itself.
        """
        with self._in_words():
            try:
                return self._info(self._store.head(self._full(key)))
            except FileNotFoundError:
                return None

    def get(self, key: str, *, last: int = 0, limit: int = 0) -> tuple[bytes, ObjectInfo] | None:
        """Return the content of an object, or only its `last` bytes. Return None if there is no object.

        Also raises ObjectStoreError if `limit` is above 0 and the object has more bytes than `limit`.
        """
        with self._in_words():
            try:
                # The range counts from the beginning, because Azure has no ranges that count from the end.
                first = self._store.head(self._full(key))["size"] - last if last else 0
                found = self._store.get(self._full(key), options={"range": {"offset": first}} if first > 0 else None)
                if limit and found.meta["size"] > limit:
                    raise ObjectStoreError(f"{self.url}/{key} has more than {limit} bytes")
                return bytes(found.bytes()), self._info(found.meta)
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return None

    def put(
        self, key: str, content: bytes | Path, over: ObjectInfo | Literal["create", "overwrite"] = "overwrite"
    ) -> None:
        """Write an object. A write is atomic: readers never see a part of it.

        `over` is the version that the object must have now, "create" if the object must not exist, or "overwrite" to
        write in any case. Raises ObjectChanged if the object does not meet this condition. Raises OSError if `content`
        is a file that can't be read.
        """
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        options: dict[str, Any] = {"chunk_size": _PART_BYTES, "max_concurrency": _PARTS}
        with self._in_words():
            try:
                self._store.put(
                    self._full(key), content, mode=over if isinstance(over, str) else over.version, **options
                )
            except (PreconditionError, AlreadyExistsError):
                raise ObjectChanged(f"another process has written {self.url}/{key}", passing=True) from None
            except NotSupportedError:  # the store, or its configuration, does not support conditional writes
                self._store.put(self._full(key), content, **options)

    def all(self, under: str = "") -> Iterator[ObjectInfo]:
        """Yield all objects below a key, sorted."""
        with self._in_words():
            for some in self._store.list(self._full(under) or None):
                yield from map(self._info, some)

    def folders(self, under: str = "") -> list[str]:
        """Return the sorted names of the folders directly below a key.

        For example, with the objects `a/b/c` and `a/d`, the only folder below `a` is `b`.
        """
        with self._in_words():
            found = self._store.list_with_delimiter(self._full(under) or None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. A missing object is not an error."""
        with self._in_words():
            if wanted := [self._full(key) for key in keys]:
                self._store.delete(wanted)

    def link(self, key: str, lifetime: timedelta) -> str:
        """Return a URL by which anyone can get an object during `lifetime`.

        The URL stops working earlier if the used credentials expire.
        """
        from obstore import sign

        with self._in_words():
            return sign(self._store, "GET", self._full(key), lifetime)

    def check_writable(self) -> ObjectStoreError | None:
        """Check that objects can be written: write a test object and remove it.

        Return None if this succeeds. Return a temporary error (the store does not answer), and raise any other error.
        """
        probe = f".writable-{secrets.token_hex(4)}"
        try:
            self.put(probe, b"")
            self.delete([probe])
        except ObjectStoreError as error:
            if not error.passing:
                raise
            return error
        return None

    # For artifacts of pipelines, which are one object at the URL, or several objects below it.

    def here(self) -> Iterator[ObjectInfo]:
        """Yield the object at the URL if it exists, and the objects below the URL."""
        at_url = self.find() if self._path else None
        return chain(() if at_url is None else (at_url,), self.all())

    def download(self, path: Path) -> None:
        """Copy the object at the URL to a new file, or copy the objects below the URL into a new directory.

        If there are objects below the URL, the object at the URL itself is not copied. Raises OSError, also if there is
        no object or if there are too many objects.
        """
        found = list(islice(self.here(), _MAX_FILES + 1))
        if not found or len(found) > _MAX_FILES:
            what = "nothing" if not found else f"more than {_MAX_FILES} objects"
            raise ObjectStoreError(f"{self.url}: there is {what} to download")
        below = [one.key for one in found if one.key and not one.key.endswith("/")]
        for key in below or [""]:
            try:
                target = path.joinpath(*components(key)) if key else path
            except LeadsOut as error:
                raise ObjectStoreError(
                    f"{self.url}: can't download an object, because its name leads out of the directory: {error}"
                ) from None
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream, self._in_words():
                for chunk in self._store.get(self._full(key)).stream(min_chunk_size=_PART_BYTES):
                    stream.write(chunk)

    def upload(self, path: Path) -> None:
        """Copy a file, or all files of a directory, to the URL. Symbolic links are left out. Raises OSError."""
        path.stat()
        for folder, _, names in os.walk(path):
            for file in (Path(folder, name) for name in sorted(names)):
                if file.is_file() and not file.is_symlink():
                    self.put(file.relative_to(path).as_posix(), file)
        if not path.is_dir():
            self.put("", path)

    def remove(self) -> None:
        """Remove the object at the URL and the objects below the URL."""
        self.delete([info.key for info in self.here()])

    # Names and errors.

    def _full(self, key: str) -> str:
        full = "/".join(filter(None, (self._path, key)))
        if _NO_PART.search(f"/{full}/"):
            raise ObjectStoreError(
                f"{self.url}: {key!r} is not a valid key: a key must not have control characters, or a part that is "
                'empty, "." or ".."'
            )
        return full

    def _info(self, meta: Any) -> ObjectInfo:
        version = {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}
        return ObjectInfo(
            meta["path"].removeprefix(self._path).lstrip("/"), meta["size"], meta["last_modified"], version
        )

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise self._error(error) from None

    def _error(self, error: Exception) -> ObjectStoreError:
        text = str(error).partition("\n\nDebug source")[0]
        status = getattr(_STATUS.search(text), "group", lambda _: "")(1)
        code = getattr(_CODE.search(text), "group", lambda _: "")(1) or status
        reason = _ADVICE.get(code) or _ADVICE.get(status)
        if reason is None:
            reason = _QUERY.sub("", text.partition(" - Server returned")[0].partition("\n")[0])[:_MAX_TEXT]
        lasting = isinstance(error, ValueError | FileNotFoundError) or status in _LASTING
        return ObjectStoreError(f"{self.url}: {reason}{f' ({code})' if code else ''}", passing=not lasting)


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


@lru_cache(maxsize=64)
def _bucket(url: str, endpoint: str) -> Any:
    """Return obstore's client for a bucket, which keeps connections and renews credentials."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise ObjectStoreError(f"{url} needs obstore: pip install 'tfoperator[objects]'") from None
    plain = endpoint.startswith("http://")
    client: Any = {"timeout": _REQUEST_TIME, "connect_timeout": _CONNECT_TIME, "allow_http": plain}
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": _RETRY_TIME}
    try:
        return from_url(url, client_options=client, retry_config=retries)
    except BaseError as error:
        raise ObjectStoreError(f"{url}: {str(error).partition(chr(10))[0]}") from None
