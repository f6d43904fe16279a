"""The rules for probes and for actions at a container's start and end."""

from __future__ import annotations

from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Faults,
    Json,
    by_rule,
    choice,
    forbidden,
    invalid,
    items,
    not_negative,
    only_one,
    part,
    required,
    text,
    within,
)

_PROBES = ("exec", "httpGet", "tcpSocket", "grpc")
_ACTIONS = ("exec", "httpGet", "tcpSocket", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")


def probe_faults(path: str, container: Json) -> Faults:
    """Yield the faults of the three probes of the container at `path`."""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe, at = container.get(kind), f"{path}.{kind}"
        if probe is None:
            continue
        yield from _handler_faults(at, probe, _PROBES, 0)
        for number in _NUMBERS:
            yield from not_negative(f"{at}.{number}", probe.get(number))
        grace = probe.get("terminationGracePeriodSeconds")
        if grace is not None and grace <= 0:
            yield invalid(f"{at}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if kind == "readinessProbe" and grace is not None:
            yield invalid(f"{at}.terminationGracePeriodSeconds", grace, "must not be set: this probe ends nothing")
        if kind != "readinessProbe" and (probe.get("successThreshold") or 1) != 1:
            yield invalid(f"{at}.successThreshold", probe["successThreshold"], "must be 1")


def lifecycle_faults(path: str, container: Json, grace: int) -> Faults:
    """Yield the faults of the lifecycle of the container at `path`; `grace` is the pod's grace period in seconds."""
    lifecycle = part(container, "lifecycle")
    for kind in ("postStart", "preStop"):
        if lifecycle.get(kind) is not None:
            yield from _handler_faults(f"{path}.lifecycle.{kind}", lifecycle[kind], _ACTIONS, grace)


def _handler_faults(at: str, handler: Json, kinds: tuple[str, ...], grace: int) -> Faults:
    used_kinds = only_one(handler, kinds)
    if not used_kinds:
        yield required(at, f"must have one of {', '.join(kinds)}")
        return
    for kind in used_kinds[1:]:
        yield forbidden(f"{at}.{kind}", f"must not be set beside {used_kinds[0]}")
    kind, action = used_kinds[0], handler[used_kinds[0]]
    field = f"{at}.{kind}"
    if kind == "exec" and not action.get("command"):
        yield required(f"{field}.command")
    if kind == "httpGet":
        yield from _http_faults(field, action)
    if kind == "tcpSocket":
        yield from _port_faults(f"{field}.port", action.get("port"))
    if kind == "grpc":
        yield from within(f"{field}.port", action.get("port") or 0, 1, 65535)
    if kind == "sleep" and not 0 <= (action.get("seconds") or 0) <= grace:
        yield invalid(field, action.get("seconds"), f"must be from 0 to the grace period of {grace} s")


def _http_faults(field: str, action: Json) -> Faults:
    yield from _port_faults(f"{field}.port", action.get("port"))
    yield from choice(f"{field}.scheme", text(action, "scheme", "HTTP"), ("HTTP", "HTTPS"))
    for header in items(action, "httpHeaders"):
        yield from by_rule(f"{field}.httpHeaders", text(header, "name"), name_rules.header_name)


def _port_faults(field: str, port: str | int | None) -> Faults:
    if isinstance(port, str):
        yield from by_rule(field, port, name_rules.port_name)
    else:
        yield from within(field, port or 0, 1, 65535)
