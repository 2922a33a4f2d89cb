"""Validation of volume sources that pods and persistent volumes share. Each function takes a source and its path."""

from __future__ import annotations

import re
from collections.abc import Callable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, not_supported, required, too_long
from apiserver_stub.validation.file_paths import validate_descending_path, validate_no_backsteps
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_problems, subdomain_problems
from nodeagent.base.release import OLDEST, Release

Rule = Callable[[Object, str], list[Cause]]

ISCSI_NAME_LIMIT = 64
ISCSI_NAME_RULE = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is "
    "specified."
)

_ISCSI_NAMES = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z.-]+)(:[^,;*&$|\s]+)\Z", re.ASCII),
    "eui": re.compile(r"\Aeui.[0-9A-Za-z]{16}\Z", re.ASCII),
    "naa": re.compile(r"\Anaa.[0-9A-Za-z]{32}\Z", re.ASCII),
}
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_CACHING_MODES, _DISK_KINDS = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
_MANAGED_DISK = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_REGISTRY_RULE = "must be a host:port pair or multiple pairs separated by commas"
_CSI_NAME_LIMIT = 63
_EMPTY_NAMES_REPORTED_ONCE = Release(1, 34)
"""First release that does not report the characters of empty names of drivers."""


def validate_csi_driver_name(name: str, field: str, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the name of a CSI driver."""
    if not name and release >= _EMPTY_NAMES_REPORTED_ONCE:
        return [required(field)]
    causes = [] if name else [required(field)]
    if len(name) > _CSI_NAME_LIMIT:
        causes.append(too_long(field, _CSI_NAME_LIMIT))
    return causes + invalid_each(field, name, subdomain_problems(name.lower()))


def validate_host_path(source: Object, field: str) -> list[Cause]:
    path = source.get("path")
    if not path:
        return [required(f"{field}.path")]
    causes = validate_no_backsteps(path, f"{field}.path")
    if (kind := source.get("type")) is not None and kind not in _HOST_PATH_TYPES:
        causes.append(not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))
    return causes


def validate_nfs(source: Object, field: str) -> list[Cause]:
    causes = _require(source, field, "server", "path")
    path = source.get("path") or ""
    if not path.startswith("/"):
        causes.append(invalid_value(f"{field}.path", path, "must be an absolute path"))
    return causes


def validate_iscsi(source: Object, field: str) -> list[Cause]:
    """Return the errors in an iSCSI source of a pod; in a persistent volume they read a little differently."""
    causes = _require(source, field, "targetPortal", "iqn")
    if name := source.get("iqn"):
        causes += validate_iscsi_name(name, f"{field}.iqn")
    lun = source.get("lun") or 0
    if not 0 <= lun <= 255:
        causes.append(invalid_value(f"{field}.lun", lun, "must be between 0 and 255, inclusive"))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        causes.append(required(f"{field}.secretRef"))
    if (name := source.get("initiatorName")) is not None:
        causes += validate_iscsi_name(name, f"{field}.initiatorname")
    return causes


def validate_iscsi_name(name: str, field: str) -> list[Cause]:
    """Return the error in the qualified name of an iSCSI target or initiator."""
    pattern = _ISCSI_NAMES.get(name[:3])
    if pattern is None:
        return [invalid_value(field, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.search(name) else [invalid_value(field, name, "must be valid format")]


def validate_fc(source: Object, field: str) -> list[Cause]:
    names, identifiers = source.get("targetWWNs"), source.get("wwids")
    causes = []
    if not names and not identifiers:
        causes.append(required(f"{field}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and identifiers:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        causes.append(invalid_value(f"{field}.targetWWNs", names, detail))
    if names:
        lun = source.get("lun")
        if lun is None:
            causes.append(required(f"{field}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            causes.append(invalid_value(f"{field}.lun", lun, "must be between 0 and 255, inclusive"))
    return causes


def validate_gce_disk(source: Object, field: str) -> list[Cause]:
    return _require(source, field, "pdName") + _validate_partition(source, field)


def validate_aws_disk(source: Object, field: str) -> list[Cause]:
    return _require(source, field, "volumeID") + _validate_partition(source, field)


def validate_azure_disk(source: Object, field: str) -> list[Cause]:
    causes = _require(source, field, "diskName", "diskURI")
    address, kind = source.get("diskURI") or "", source.get("kind")
    if (mode := source.get("cachingMode")) is not None and mode not in _CACHING_MODES:
        causes.append(not_supported(f"{field}.cachingMode", mode, _CACHING_MODES))
    if kind is not None:
        if kind not in _DISK_KINDS:
            causes.append(not_supported(f"{field}.kind", kind, _DISK_KINDS))
        start, form = ("/subscriptions/", _MANAGED_DISK) if kind == "Managed" else ("https://", _BLOB_DISK)
        if not address.startswith(start):
            causes.append(not_supported(f"{field}.diskURI", address, (form,)))
    return causes


def validate_quobyte(source: Object, field: str) -> list[Cause]:
    registry = source.get("registry") or ""
    causes = []
    if not registry:
        causes.append(required(f"{field}.registry", _REGISTRY_RULE))
    elif len((source.get("tenant") or "").encode()) > 64:
        causes.append(required(f"{field}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        causes += [
            invalid_value(f"{field}.registry", registry, _REGISTRY_RULE)
            for pair in registry.split(",")
            if not _is_host_port(pair)
        ]
    return causes + _require(source, field, "volume")


def validate_flocker(source: Object, field: str) -> list[Cause]:
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID")
    causes = []
    if not name and not uuid:
        causes.append(required(field, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        causes.append(invalid_value(field, "resource", detail))
    if "/" in name:
        causes.append(invalid_value(f"{field}.datasetName", name, "must not contain '/'"))
    return causes


def validate_flex_volume(source: Object, field: str, identity: Identity) -> list[Cause]:
    causes = _require(source, field, "driver")
    reserved = (f".{identity.label_domain}", f".{identity.api_domain}")
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith(reserved):
            detail = f"{reserved[0][1:]} and {reserved[1][1:]} namespaces are reserved"
            causes.append(invalid_value(f"{field}.options[{key}]", key, detail))
    return causes


def validate_git_repo(source: Object, field: str) -> list[Cause]:
    causes = _require(source, field, "repository")
    return causes + validate_descending_path(source.get("directory") or "", f"{field}.directory")


def validate_storage_os(source: Object, field: str) -> list[Cause]:
    causes = _require(source, field, "volumeName")
    for name in ("volumeName", "volumeNamespace"):
        if value := source.get(name):
            causes += invalid_each(f"{field}.{name}", value, label_problems(value))
    return causes + _validate_secret(source, field)


def validate_cinder(source: Object, field: str) -> list[Cause]:
    return _require(source, field, "volumeID") + _validate_secret(source, field)


def needs(*names: str) -> Rule:
    """Return the rule for a source whose fields *names* must not be empty."""
    return lambda source, field: _require(source, field, *names)


def _require(source: Object, field: str, *names: str) -> list[Cause]:
    return [required(f"{field}.{name}") for name in names if not source.get(name)]


def _validate_secret(source: Object, field: str) -> list[Cause]:
    secret = source.get("secretRef")
    return [required(f"{field}.secretRef.name")] if secret is not None and not secret.get("name") else []


def _validate_partition(source: Object, field: str) -> list[Cause]:
    partition = source.get("partition") or 0
    if 0 <= partition <= 255:
        return []
    return [invalid_value(f"{field}.partition", partition, "must be between 1 and 255, inclusive")]


def _is_host_port(text: str) -> bool:
    """Return whether *text* is a host and a port as Go's ``net.SplitHostPort`` accepts them; both may be empty."""
    head, colon, _ = text.rpartition(":")
    if not colon:
        return False
    if not text.startswith("["):
        return not any(character in text for character in "[]") and ":" not in head
    end = text.find("]")
    return end == len(head) - 1 and "[" not in text[1:] and "]" not in text[end + 1 :]
