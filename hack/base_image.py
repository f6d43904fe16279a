"""Ask the registry for the current digest of the base image, and write the digest into the Dockerfile.

A tag can name another image tomorrow, but a digest always names the same image. Run this command on a machine that can
reach the registry: before a release, and after security updates of the base image. Commit the changed Dockerfile:

    python -m hack.base_image            # ARG BASE=python:3.13-slim-trixie@sha256:...
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec

DOCKERFILE = Path(__file__).parents[1] / "Dockerfile"
DOCKER_HUB = "registry-1.docker.io"
LIMIT = 30.0  # seconds for a request
MAX_BYTES = 4 << 20  # of an answer; what a registry may refuse to store is smaller
ACCEPTED = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_BASE = re.compile(r"^ARG BASE=(\S+)$", re.MULTILINE)


class BaseImageError(Exception):
    """The base's digest can't be had; the message names the reason."""


class Reference(msgspec.Struct, frozen=True):
    """An image's name as a registry is asked for it."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, name: str) -> Reference:
        """From what stands after FROM: `python:3.13-slim`, `registry.example.com/team/python:3`; without a digest."""
        head, slash, last = name.partition("@")[0].rpartition("/")
        last, _, tag = last.partition(":")
        path = f"{head}{slash}{last}"
        registry, _, repository = path.partition("/")
        if not repository or not (set(".:") & set(registry) or registry == "localhost"):
            registry, repository = DOCKER_HUB, path if repository else f"library/{path}"
        return cls(registry, repository, tag or "latest")


def digest_of(reference: Reference, *, scheme: str = "https") -> str:
    """Return the digest of a tag's manifest: of the manifest of all platforms, if it exists. Raises BaseImageError."""
    url = f"{scheme}://{reference.registry}/v2/{reference.repository}/manifests/{reference.tag}"
    headers = {"Accept": ", ".join(ACCEPTED)}
    try:
        try:
            body, reported_digest = _get(url, headers)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            body, reported_digest = _get(url, {**headers, "Authorization": f"Bearer {_token(error, scheme)}"})
    except (OSError, ValueError) as error:
        raise BaseImageError(f"{reference.registry} doesn't say what {reference.tag} is: {error}") from error
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    if reported_digest not in ("", digest):
        raise BaseImageError(f"{reference.registry} says {reported_digest}, but what it sent is {digest}")
    return digest


def _get(url: str, headers: dict[str, str]) -> tuple[bytes, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=LIMIT) as answer:
            return answer.read(MAX_BYTES), answer.headers.get("Docker-Content-Digest", "")
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _token(refusal: urllib.error.HTTPError, scheme: str) -> str:
    """Get the token that anybody can request at the place that the refusal names."""
    challenge = dict(re.findall(r'(\w+)="([^"]*)"', refusal.headers.get("WWW-Authenticate", "")))
    realm = challenge.pop("realm", "")
    if not realm.startswith(f"{scheme}://"):
        raise ValueError("it asks for credentials in a way that is not known here")
    body, _ = _get(f"{realm}?{urllib.parse.urlencode(challenge)}", {})
    answer = json.loads(body)
    return str(answer.get("token") or answer["access_token"])


def with_digest(dockerfile: str, digest: str) -> str:
    """The Dockerfile's text with this digest behind the base's name. Raises BaseImageError."""
    text, changed = _BASE.subn(lambda match: f"ARG BASE={match[1].partition('@')[0]}@{digest}", dockerfile)
    if changed != 1:
        raise BaseImageError("the Dockerfile has no line ARG BASE=...")
    return text


def base_of(dockerfile: str) -> str:
    """The base that a Dockerfile names. Raises BaseImageError."""
    match = _BASE.search(dockerfile)
    if not match:
        raise BaseImageError("the Dockerfile has no line ARG BASE=...")
    return match[1]


def main() -> int:
    """Ask, and write."""
    text = DOCKERFILE.read_text()
    try:
        DOCKERFILE.write_text(with_digest(text, digest_of(Reference.parse(base_of(text)))))
    except BaseImageError as error:
        print(error, file=sys.stderr)
        return 1
    print(base_of(DOCKERFILE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
