"""The rules of RFC 1123 for names, labels and ports as Kubernetes applies them, with Kubernetes' messages.

Each checker returns the problem of a value, or an empty string.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER_NAME = re.compile(r"[-A-Za-z0-9]+")
_DNS_SEARCH = re.compile(r"[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?(\.[a-z0-9_]([-_a-z0-9]*[a-z0-9_])?)*")
_PORT_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def _match(pattern: re.Pattern[str], value: str, otherwise: str, limit: int = 63) -> str:
    if len(value) > limit:
        return f"must be no more than {limit} characters"
    return "" if pattern.fullmatch(value) else f"{otherwise} (regex used for validation is '{pattern.pattern}')"


def dns_label(value: str) -> str:
    """Check a label of RFC 1123: the name of a namespace, container, volume or, since Kubernetes 1.36, service."""
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc')"
    )
    if len(value) <= 63 and "." in value and _SUBDOMAIN.fullmatch(value):
        return "must not contain dots"
    return _match(_LABEL, value, rule)


def dns_subdomain(value: str) -> str:
    """Check a subdomain of RFC 1123: the names of most objects."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'example.com')"
    )
    return _match(_SUBDOMAIN, value, rule, 253)


def dns_search(value: str) -> str:
    """Check a domain of a resolver's search list, which may have underscores."""
    return _match(_DNS_SEARCH, value, "must consist of lower case alphanumeric characters, '-', '_' or '.'", 253)


def dns_subdomain_prefix(value: str) -> str:
    """Check a subdomain to which Kubernetes appends a generated part: the subdomain may end with a hyphen."""
    return dns_subdomain(value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value)


def config_key(value: str) -> str:
    """Check a key of a ConfigMap or Secret, which is also the name of a file."""
    if value in (".", "..") or value.startswith(".."):
        return "must not be '.' or '..', nor start with '..'"
    return _match(_CONFIG_KEY, value, "must consist of alphanumeric characters, '-', '_' or '.'", 253)


def header_name(value: str) -> str:
    """Check the name of an HTTP header."""
    return _match(_HEADER_NAME, value, "must consist of alphanumeric characters or '-'", 2**20)


def qualified_name(value: str) -> str:
    """Check the key of a label or annotation: an optional DNS prefix, a slash and a name."""
    prefix, slash, name = value.rpartition("/")
    rule = (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc')"
    )
    if slash and (problem := dns_subdomain(prefix)):
        return f"prefix part {problem}"
    return _match(_QUALIFIED_NAME, name, rule)


def label_value(value: str) -> str:
    """Check the value of a label; it may be empty."""
    rule = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345')"
    )
    return _match(_QUALIFIED_NAME, value, rule) if value else ""


def environment_name(value: str) -> str:
    """Check the name of an environment variable: printable ASCII without '='."""
    if value and all(" " <= c <= "~" and c != "=" for c in value):
        return ""
    return "must consist of printable ASCII characters other than '='"


def port_name(value: str) -> str:
    """Check the name of a container port, by IANA's rule for service names."""
    if len(value) <= 15 and not re.search("[a-z]", value):
        return "must contain at least one letter (a-z)"
    return _match(_PORT_NAME, value, "must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)", 15)
