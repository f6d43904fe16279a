"""Objects in an S3-compatible store, through boto3: endpoint, region and credentials are found as the AWS CLI does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSLError,
)
from botocore.exceptions import ConnectionError as NoConnection

from tfoperator.pipeline.objects.object_store import (
    ABSENT,
    ObjectConflict,
    ObjectStoreError,
    ObjectStoreUnavailable,
    Stored,
)

_ATTEMPTS = 8
"""Attempts of each request; with botocore's waits of at most 20 s in between, an outage of about 40 s is survived."""
_FIRST_ATTEMPTS = 2
"""Attempts until the first response: a wrong address must be reported at once."""
_CONNECT_SECONDS, _READ_SECONDS = 5, 20
_CONFLICTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_BEFORE_AT = re.compile(r"\S*@")
_ABSENT_CODES = ("NoSuchKey", "404", "NotFound")
_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_ADVICE = {
    "NoSuchBucket": "there is no such bucket: make it, or name another one",
    "InvalidAccessKeyId": f"it does not know this access key: {_KEYS}",
    "SignatureDoesNotMatch": f"the secret key is not that of this access key: {_KEYS}",
    "ExpiredToken": "the credentials have expired: get new ones",
    "InvalidToken": f"the session token is not valid: {_KEYS}",
    "InvalidClientTokenId": f"it does not know these credentials: {_KEYS}",
    "AccessDenied": "access is denied: the credentials need s3:GetObject, s3:PutObject and s3:DeleteObject on the "
    "prefix, and s3:ListBucket on the bucket",
    "RequestTimeTooSkewed": "the clock of this machine is wrong by more than 15 minutes: set it",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_REGION",
    "IllegalLocationConstraintException": "the bucket is in another region: set AWS_REGION",
    "NotImplemented": "it does not know conditional writes, which keep two runners apart: use another store",
}  # fmt: skip
_ADVICE |= {"403": _ADVICE["AccessDenied"], "Forbidden": _ADVICE["AccessDenied"]}


class S3Objects:
    """See `ObjectStore`; a version is an ETag. Its logs and errors contain no credentials."""

    def __init__(self, bucket: str, prefix: str) -> None:
        """Make no request. Raises ObjectStoreError for an invalid configuration."""
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._patient = True  # no request yet
        with self._in_words():
            self._client = _client(_FIRST_ATTEMPTS)
        self._patient = False

    def __str__(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def get(self, key: str) -> Stored | None:
        """See `ObjectStore`."""
        with self._in_words():
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                data = answer["Body"].read()
            except ClientError as error:
                if _code(error) in _ABSENT_CODES:
                    return None
                raise
        modified = answer["LastModified"].astimezone(UTC)
        return Stored(data, answer["ETag"], max(0.0, (_time_of(answer) - modified).total_seconds()), modified)

    def put(self, key: str, data: bytes, expected: str | None = None) -> str:
        """See `ObjectStore`."""
        condition = {} if expected is None else {"IfNoneMatch": "*"} if expected == ABSENT else {"IfMatch": expected}
        with self._in_words():
            try:
                answer = self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=data, **condition)
                return str(answer["ETag"])
            except ClientError as error:
                # If-Match of an object that is not there (any more) results in 404.
                if not condition or _code(error) not in (*_CONFLICTS, *_ABSENT_CODES):
                    raise
                there = self.get(key)
                if there is not None and there.data == data:  # an earlier attempt of this request, with a lost response
                    return there.version
                raise ObjectConflict(f"{self}/{key} was written by somebody else") from None

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """See `ObjectStore`."""
        start = {"StartAfter": self._prefix + after} if after else {}
        with self._in_words():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix, **start
            )
            for page in pages:
                for one in page.get("Contents", ()):
                    yield str(one["Key"]).removeprefix(self._prefix)

    def delete(self, key: str) -> None:
        """See `ObjectStore`."""
        with self._in_words():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
            if not self._patient:  # it is reachable, and accepts the credentials: later failures are transient
                self._client, self._patient = _client(_ATTEMPTS), True
        except (NoCredentialsError, PartialCredentialsError):
            raise ObjectStoreError(f"{self}: there are no credentials for it: {_KEYS}") from None
        except NoRegionError:
            raise ObjectStoreError(f"{self}: set AWS_REGION, of a store without regions to us-east-1") from None
        except ProfileNotFound as error:
            raise ObjectStoreError(f"{self}: {error}: set AWS_PROFILE to one that is there") from None
        except ClientError as error:
            said = _ADVICE.get(_code(error), "") or f"{_code(error)}: {error.response['Error'].get('Message', '')}"
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            kind = ObjectStoreUnavailable if status >= 500 or status == 429 else ObjectStoreError
            raise kind(f"{self}: {said}") from None
        except SSLError as error:
            raise ObjectStoreError(f"{self}: {error}: set AWS_CA_BUNDLE to the certificate of its authority") from None
        except (NoConnection, HTTPClientError) as error:
            # Not the error's text: a URL may contain a password.
            where = urlsplit(self._client.meta.endpoint_url)
            address = f"{where.hostname}:{where.port}" if where.port else where.hostname
            raise ObjectStoreUnavailable(
                f"{self} can't be reached at {address} ({type(error).__name__}): is AWS_ENDPOINT_URL right?"
            ) from None
        except (BotoCoreError, ValueError) as error:
            # The text may contain AWS_ENDPOINT_URL, and that a password.
            raise ObjectStoreError(f"{self}: {_BEFORE_AT.sub('', str(error))}") from None


def _client(attempts: int) -> Any:
    return boto3.session.Session().client(
        "s3",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            # Many compatible stores do not support the checksums that S3 does not require.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            max_pool_connections=20,
        ),
    )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _time_of(answer: dict[str, Any]) -> datetime:
    """Return the time of the store's response, by its own clock; the standard requires that header."""
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
    return parsedate_to_datetime(said).astimezone(UTC) if said else answer["LastModified"].astimezone(UTC)
