"""The names of container images that a kubelet can read.

An API server takes any text that does not begin or end with white space. If the text is not a valid name, the kubelet
then never starts the container (`InvalidImageName`).
"""

from __future__ import annotations

import re

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST_NAME = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_HEXADECIMAL = re.compile(r"[a-f0-9]{64}")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|<[^>]*>|\{\{.*?\}\}|\$[A-Za-z_]\w*")
_MAX_NAME = 255


def image_problem(image: str) -> str:
    """Return why a kubelet can't read an image name, in the form "must be ..."; empty for a valid name."""
    if match := _PLACEHOLDER.search(image):
        return f"must be the name of an image: {match[0]} is a placeholder, so replace it first"
    name, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return "must have a digest such as sha256:... after the @"
    name, tag = _without_tag(name)
    if tag is not None and not _TAG.fullmatch(tag):
        return "must have a tag of at most 128 letters, digits, '_', '.' and '-' after the last colon"
    path = _path(name)
    if path is None or not _PATH.fullmatch(path):
        if path is not None and _PATH.fullmatch(path.lower()):
            return "must be an image name in lower case: only its host and its tag may have upper-case letters"
        return "must be the name of an image, such as example.com/team/image:1.0"
    if len(name) > _MAX_NAME:
        return f"must have at most {_MAX_NAME} characters before the tag"
    return (
        "must not consist of 64 hexadecimal digits: that is the form of an image ID"
        if _HEXADECIMAL.fullmatch(name)
        else ""
    )


def _without_tag(name: str) -> tuple[str, str | None]:
    before, colon, tag = name.rpartition(":")
    return (before, tag) if colon and "/" not in tag else (name, None)


def _path(name: str) -> str | None:
    """Return the name of an image without the registry's host; return None for an invalid host."""
    first, slash, rest = name.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first)
    if not is_host:
        return name
    return rest if _HOST_NAME.fullmatch(first) else None
