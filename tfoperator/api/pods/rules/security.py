"""The rules for users, privileges and profiles of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Collection

from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    texts,
)
from tfoperator.api.pods.rules.paths import descending, identity

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE = 4095
"""The maximum number of bytes of a path on Linux."""
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"({_SEGMENT}[./])*{_SEGMENT}")
_MAX_SYSCTL = 253
_OF_IPC = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


def pod_security_faults(path: str, spec: Json) -> Faults:
    """Yield the faults of the security context of the whole pod whose spec is at `path`."""
    context, at = spec.get("securityContext"), f"{path}.securityContext"
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        yield invalid(f"{path}.shareProcessNamespace", True, "must not be set beside hostPID")
    if context is None:
        return
    yield from identity(at, context, "fsGroup", "runAsUser", "runAsGroup")
    for position, group in enumerate(context.get("supplementalGroups") or ()):
        yield from identity(at, {f"supplementalGroups[{position}]": group}, f"supplementalGroups[{position}]")
    yield from _sysctl_faults(f"{at}.sysctls", context, spec)
    for field, options in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("MountOption", "Recursive")),
    ):
        if context.get(field) is not None:
            yield from choice(f"{at}.{field}", context[field], options)
    yield from _profile_faults(at, context)


def container_security_faults(at: str, context: Json | None, *, host_users: bool) -> Faults:
    """Yield the faults of a container's security context; `at` is its path."""
    if context is None:
        return
    yield from identity(at, context, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None:
        yield from choice(f"{at}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            yield invalid(f"{at}.procMount", mount, "must be Default unless hostUsers is false")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            yield invalid(at, None, "must not have allowPrivilegeEscalation: false beside privileged: true")
        if "CAP_SYS_ADMIN" in texts(part(context, "capabilities"), "add"):
            yield invalid(at, None, "must not have allowPrivilegeEscalation: false beside CAP_SYS_ADMIN")
    yield from _profile_faults(at, context)


def _profile_faults(at: str, context: Json) -> Faults:
    seccomp, armor = context.get("seccompProfile"), context.get("appArmorProfile")
    if seccomp is not None:
        field = f"{at}.seccompProfile"
        others = ("RuntimeDefault", "Unconfined", text(seccomp, "type"))
        yield from _profile_type_faults(field, seccomp, others=others)
        if text(seccomp, "type") == "Localhost" and seccomp.get("localhostProfile") is not None:
            yield from descending(f"{field}.localhostProfile", seccomp["localhostProfile"])
    if armor is not None:
        field = f"{at}.appArmorProfile"
        yield from _profile_type_faults(field, armor, others=("RuntimeDefault", "Unconfined"))
        profile = armor.get("localhostProfile")
        if text(armor, "type") == "Localhost" and profile is not None:
            if profile != profile.strip():
                yield invalid(f"{field}.localhostProfile", profile, "must not begin or end with white space")
            elif not profile:
                yield required(f"{field}.localhostProfile", "the type Localhost needs it")
            if len(profile.encode()) > _MAX_PROFILE:
                yield Fault(
                    f"{field}.localhostProfile", Kind.TOO_LONG, detail=f"must have at most {_MAX_PROFILE} bytes"
                )


def _profile_type_faults(field: str, profile: Json, *, others: Collection[str]) -> Faults:
    """Yield the faults of a profile's type, and of a `localhostProfile` in a profile with one of the types `others`."""
    kind = text(profile, "type")
    if not kind:
        yield required(f"{field}.type")
    else:
        yield from choice(f"{field}.type", kind, _PROFILES)
    if kind == "Localhost" and profile.get("localhostProfile") is None:
        yield required(f"{field}.localhostProfile", "the type Localhost needs it")
    elif kind != "Localhost" and kind in others and profile.get("localhostProfile") is not None:
        yield invalid(f"{field}.localhostProfile", profile["localhostProfile"], "needs the type Localhost")


def _sysctl_faults(path: str, context: Json, spec: Json) -> Faults:
    seen_names: set[str] = set()
    for position, sysctl in enumerate(items(context, "sysctls")):
        at, name = f"{path}[{position}].name", text(sysctl, "name")
        if not name:
            yield required(at)
        elif len(name) > _MAX_SYSCTL or not _SYSCTL.fullmatch(name):
            yield invalid(at, name, f"must be a kernel parameter of at most {_MAX_SYSCTL} characters")
        elif name in seen_names:
            yield duplicate(at, name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield invalid(at, name, "must not be set beside hostNetwork")
        elif spec.get("hostIPC") and dotted.startswith(_OF_IPC):
            yield invalid(at, name, "must not be set beside hostIPC")
        seen_names.add(name)


def host_user_faults(spec: Json, path: str) -> Faults:
    """Yield the faults of a pod with its own user namespace (`hostUsers: false`).

    Such a pod can't use the network, the processes or the devices of its node.
    """
    if spec.get("hostUsers") is not False:
        return
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            yield forbidden(f"{path}.{shown}", "must not be set beside hostUsers: false")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(items(spec, group)):
            if container.get("volumeDevices"):
                yield forbidden(f"{path}.{group}[{index}].volumeDevices", "must not be set beside hostUsers: false")
