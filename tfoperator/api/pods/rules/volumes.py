"""The rules for the volumes of a pod, for all kinds of volumes."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping

from tfoperator.api.fields.quantity import parse_signed_quantity
from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.claims import claim_template_faults
from tfoperator.api.pods.rules.environment import FILE_FIELDS, field_faults, resource_field_faults
from tfoperator.api.pods.rules.faults import (
    Fault,
    Faults,
    Json,
    Kind,
    by_rule,
    choice,
    duplicate,
    forbidden,
    invalid,
    items,
    part,
    required,
    text,
    within,
)
from tfoperator.api.pods.rules.paths import file_path, mode, no_backsteps

_ORDER = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
"""The kinds of volume in kube-apiserver's order: it checks the first kind that is set, and reports any further kind as
forbidden.
"""

_SHOWN_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""The names in kube-apiserver's report of a second kind of volume, if they differ from the names of the fields."""

_HOST_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip

_ISCSI_NAMES = {
    "iqn": re.compile(r".*iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)"),
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}"),
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}"),
}


def volume_faults(spec: Json, path: str, pod_name: str = "") -> Generator[Fault, None, Mapping[str, Json]]:
    """Yield the faults of a pod's volumes; return the valid volumes by name. `pod_name` is empty for a template."""
    valid: dict[str, Json] = {}
    made = {
        f"{pod_name}-{text(volume, 'name')}" for volume in items(spec, "volumes") if volume.get("ephemeral") is not None
    }
    for position, volume in enumerate(items(spec, "volumes")):
        at, name = f"{path}.volumes[{position}]", text(volume, "name")
        faults = [*_source_faults(at, volume, pod_name), *by_rule(f"{at}.name", name, name_rules.dns_label)]
        if name in valid:
            faults.append(duplicate(f"{at}.name", name))
        yield from faults
        if not faults:
            valid[name] = volume
        claim = text(part(volume, "persistentVolumeClaim"), "claimName")
        if pod_name and claim in made:
            field = f"{at}.persistentVolumeClaim.claimName"
            yield invalid(field, claim, "must not be the claim of an ephemeral volume of this pod")
    return valid


def _source_faults(at: str, volume: Json, pod_name: str) -> Faults:
    kinds = [kind for kind in _ORDER if volume.get(kind) is not None]
    for kind in kinds[1:]:
        yield forbidden(
            f"{at}.{_SHOWN_AS.get(kind, kind)}", f"must not be set beside {kinds[0]}: a volume has one kind"
        )
    if not kinds:
        return  # an emptyDir, by default
    kind, source = kinds[0], volume[kinds[0]]
    yield from _CHECKS[kind](f"{at}.{_CHECKED_AS.get(kind, kind)}", source)
    name = text(volume, "name")
    if (
        kind == "iscsi"
        and source.get("initiatorName") is not None
        and len(f"{name}:{text(source, 'targetPortal')}") > 64
    ):
        yield invalid(f"{at}.name", name, "must have at most 63 characters with iscsi.targetPortal")
    makes_claim = kind == "ephemeral" and pod_name and name
    if makes_claim and (problem := name_rules.dns_subdomain(f"{pod_name}-{name}")):
        yield invalid(f"{at}.name", name, f"makes an invalid name of a claim: {problem}")


def _empty_dir(at: str, source: Json) -> Faults:
    if source.get("sizeLimit") is not None and parse_signed_quantity(source["sizeLimit"]) < 0:
        yield forbidden(f"{at}.sizeLimit", "must be 0 or more")


def _host_path(at: str, source: Json) -> Faults:
    place = text(source, "path")
    if not place:
        yield required(f"{at}.path")
        return
    yield from no_backsteps(f"{at}.path", place)
    yield from choice(f"{at}.type", text(source, "type"), _HOST_PATH_TYPES)


def _keys(at: str, source: Json, *, name: str) -> Faults:
    if not text(source, name):
        yield required(f"{at}.{name}")
    yield from mode(f"{at}.defaultMode", source.get("defaultMode"))
    yield from key_faults(f"{at}.items", source)


def key_faults(path: str, source: Json) -> Faults:
    """Yield the faults of the `items` of a ConfigMap or Secret, each of which becomes a file."""
    for position, item in enumerate(items(source, "items")):
        at = f"{path}[{position}]"
        for field in ("key", "path"):
            if not text(item, field):
                yield required(f"{at}.{field}")
        yield from file_path(f"{at}.path", text(item, "path"))
        yield from mode(f"{at}.mode", item.get("mode"))


def downward_faults(at: str, source: Json) -> Faults:
    """Yield the faults of files whose content is a field of the pod.

    API servers report these files without their position in the list.
    """
    for item in items(source, "items"):
        if not text(item, "path"):
            yield required(f"{at}.path")
        yield from file_path(f"{at}.path", text(item, "path"))
        of_field, of_resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if of_field is not None:
            yield from field_faults(f"{at}.fieldRef", of_field, FILE_FIELDS)
            if of_resource is not None:
                yield invalid(at, "resource", "must have one of fieldRef and resourceFieldRef")
        elif of_resource is not None:
            yield from resource_field_faults(f"{at}.resourceFieldRef", of_resource, in_file=True)
        else:
            yield required(at, "needs one of fieldRef and resourceFieldRef")
        yield from mode(f"{at}.mode", item.get("mode"))


def _downward(at: str, source: Json) -> Faults:
    yield from mode(f"{at}.defaultMode", source.get("defaultMode"))
    yield from downward_faults(at, source)


def _projected(at: str, source: Json) -> Faults:
    yield from mode(f"{at}.defaultMode", source.get("defaultMode"))
    paths: set[str] = set()
    for position, projection in enumerate(items(source, "sources")):
        path = f"{at}.sources[{position}]"
        for kind in ("secret", "configMap"):
            if projection.get(kind) is not None:
                if not text(projection[kind], "name"):
                    yield required(f"{path}.{kind}.name")
                yield from key_faults(f"{path}.{kind}.items", projection[kind])
        if projection.get("downwardAPI") is not None:
            yield from downward_faults(f"{path}.downwardAPI", projection["downwardAPI"])
        for kind in ("secret", "configMap", "downwardAPI"):
            yield from _taken(at, [text(item, "path") for item in items(projection.get(kind), "items")], paths)
        if projection.get("serviceAccountToken") is not None:
            yield from _token(at, f"{path}.serviceAccountToken", projection["serviceAccountToken"])
        if (
            sum(
                projection.get(kind) is not None
                for kind in ("secret", "configMap", "downwardAPI", "serviceAccountToken")
            )
            > 1
        ):
            yield forbidden(path, "must have a single kind of source")


def _taken(at: str, files: list[str], paths: set[str]) -> Faults:
    for file in files:
        if file and file in paths:
            yield invalid(at, file, "must not have two files with the same path")
        paths.add(file)


def _token(volume: str, at: str, token: Json) -> Faults:
    seconds = token.get("expirationSeconds")
    if seconds is not None and not 600 <= seconds <= 2**32:
        yield invalid(f"{at}.expirationSeconds", seconds, "must be from 600 to 2**32")
    if not text(token, "path"):
        yield required(f"{volume}.path")
    yield from file_path(f"{volume}.path", text(token, "path"))


def _claim(at: str, source: Json) -> Faults:
    if not text(source, "claimName"):
        yield required(f"{at}.claimName")


def _ephemeral(at: str, source: Json) -> Faults:
    template = source.get("volumeClaimTemplate")
    if template is None:
        yield required(f"{at}.volumeClaimTemplate")
    else:
        yield from claim_template_faults(f"{at}.volumeClaimTemplate", template)


def _nfs(at: str, source: Json) -> Faults:
    yield from _needs("server", "path")(at, source)
    if not text(source, "path").startswith("/"):
        yield invalid(f"{at}.path", text(source, "path"), "must be an absolute path")


def _csi(at: str, source: Json) -> Faults:
    driver = text(source, "driver")
    if not driver:
        yield required(f"{at}.driver")
    elif len(driver) > 63:
        yield Fault(f"{at}.driver", Kind.TOO_LONG, detail="must have at most 63 characters")
    if driver:
        yield from by_rule(f"{at}.driver", driver.lower(), name_rules.dns_subdomain)
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        if not text(secret, "name"):
            yield required(f"{at}.nodePublishSecretRef.name")
        else:
            yield from by_rule(f"{at}.name", secret["name"], name_rules.dns_subdomain)


def _image(at: str, source: Json) -> Faults:
    if not text(source, "reference"):
        yield required(f"{at}.reference")
    yield from choice(f"{at}.pullPolicy", text(source, "pullPolicy", "Always"), ("Always", "IfNotPresent", "Never"))


def _needs(*fields: str) -> Callable[[str, Json], Faults]:
    def check(at: str, source: Json) -> Faults:
        for field in fields:
            if not source.get(field):
                yield required(f"{at}.{field}")

    return check


def _disk(identifier: str) -> Callable[[str, Json], Faults]:
    def check(at: str, source: Json) -> Faults:
        yield from _needs(identifier)(at, source)
        yield from within(f"{at}.partition", source.get("partition"), 0, 255)

    return check


def _git(at: str, source: Json) -> Faults:
    yield from _needs("repository")(at, source)
    place = text(source, "directory")
    if place.startswith("/"):
        yield invalid(f"{at}.directory", place, "must be a relative path")
    yield from no_backsteps(f"{at}.directory", place)


def _iscsi(at: str, source: Json) -> Faults:
    yield from _needs("targetPortal", "iqn")(at, source)
    for field, shown in (("iqn", "iqn"), ("initiatorName", "initiatorname")):
        value = source.get(field)
        pattern = _ISCSI_NAMES.get((value or "")[:3])
        if value is not None and (value or field != "iqn") and (pattern is None or not pattern.fullmatch(value)):
            yield invalid(f"{at}.{shown}", value, "must be an iSCSI name, such as iqn.2001-04.com.example:disk1")
    yield from within(f"{at}.lun", source.get("lun"), 0, 255)
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(f"{at}.secretRef")


def _fibre_channel(at: str, source: Json) -> Faults:
    targets, identifiers = source.get("targetWWNs"), source.get("wwids")
    if not targets and not identifiers:
        yield required(f"{at}.targetWWNs", "needs one of targetWWNs and wwids")
    if targets and identifiers:
        yield invalid(f"{at}.targetWWNs", targets, "must not be set beside wwids")
    if targets:
        if source.get("lun") is None:
            yield required(f"{at}.lun", "targetWWNs need it")
        yield from within(f"{at}.lun", source.get("lun"), 0, 255)


def _flocker(at: str, source: Json) -> Faults:
    name, identifier = text(source, "datasetName"), text(source, "datasetUUID")
    if not name and not identifier:
        yield required(at, "needs one of datasetName and datasetUUID")
    if name and identifier:
        yield invalid(at, "resource", "must have one of datasetName and datasetUUID")
    if "/" in name:
        yield invalid(f"{at}.datasetName", name, "must not contain '/'")


def _named_secret(*fields: str) -> Callable[[str, Json], Faults]:
    def check(at: str, source: Json) -> Faults:
        yield from _needs(*fields)(at, source)
        if source.get("secretRef") is not None and not text(source["secretRef"], "name"):
            yield required(f"{at}.secretRef.name")

    return check


def _storage_os(at: str, source: Json) -> Faults:
    yield from _named_secret("volumeName")(at, source)
    for field in ("volumeName", "volumeNamespace"):
        if text(source, field):
            yield from by_rule(f"{at}.{field}", source[field], name_rules.dns_label)


def _quobyte(at: str, source: Json) -> Faults:
    registry = text(source, "registry")
    if not registry:
        yield required(f"{at}.registry")
    elif len(text(source, "tenant")) > 64:
        yield required(f"{at}.tenant", "must have at most 64 characters")
    elif any(pair.count(":") != 1 for pair in registry.split(",")):
        yield invalid(f"{at}.registry", registry, "must be host:port, or several with commas between them")
    if not text(source, "volume"):
        yield required(f"{at}.volume")


def _flex(at: str, source: Json) -> Faults:
    yield from _needs("driver")(at, source)
    for key in part(source, "options"):
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{at}.options[{key}]", key, "must not be in a domain of Kubernetes")


def _azure_disk(at: str, source: Json) -> Faults:
    yield from _needs("diskName", "diskURI")(at, source)
    kind, uri, caching = source.get("kind"), text(source, "diskURI"), source.get("cachingMode")
    yield from choice(f"{at}.cachingMode", "None" if caching is None else caching, ("None", "ReadOnly", "ReadWrite"))
    yield from choice(f"{at}.kind", "Shared" if kind is None else kind, ("Dedicated", "Managed", "Shared"))
    prefix = "/subscriptions/" if kind == "Managed" else "https://"
    if not uri.startswith(prefix):
        yield Fault(f"{at}.diskURI", Kind.NOT_SUPPORTED, uri, options=(f"{prefix}...",))


_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}
"""The names in kube-apiserver's reports of faults within a kind of volume, if they differ from the names of
the fields.
"""

_CHECKS: Mapping[str, Callable[[str, Json], Faults]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "secret": lambda at, source: _keys(at, source, name="secretName"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _flocker,
    "persistentVolumeClaim": _claim,
    "rbd": _needs("monitors", "image"),
    "cinder": _named_secret("volumeID"),
    "cephfs": _needs("monitors"),
    "quobyte": _quobyte,
    "downwardAPI": _downward,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "configMap": lambda at, source: _keys(at, source, name="name"),
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "projected": _projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
