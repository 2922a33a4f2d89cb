"""Validation of the volume sources of persistent volumes."""

from __future__ import annotations

from dataclasses import replace

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, required
from apiserver_stub.validation.file_paths import validate_no_backsteps
from apiserver_stub.validation.volume_sources import (
    ISCSI_NAME_LIMIT,
    ISCSI_NAME_RULE,
    Rule,
    needs,
    validate_aws_disk,
    validate_azure_disk,
    validate_cinder,
    validate_csi_driver_name,
    validate_fc,
    validate_flocker,
    validate_gce_disk,
    validate_host_path,
    validate_iscsi,
    validate_nfs,
    validate_quobyte,
    validate_storage_os,
)
from nodeagent.base.names import label_problems, subdomain_problems

_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_NAMESPACE_RULE = "if the endpointnamespace is set, it must be a valid namespace name"


def validate_iscsi_portal(source: Object, volume_name: str, field: str) -> list[Cause]:
    """Return the error in the portal of an iSCSI source whose initiator has a name."""
    portal = source.get("targetPortal") or ""
    if source.get("initiatorName") is None or len(f"{volume_name}:{portal}".encode()) <= ISCSI_NAME_LIMIT:
        return []
    return [invalid_value(f"{field}.targetportal", portal, ISCSI_NAME_RULE)]


def _validate_iscsi(source: Object, field: str) -> list[Cause]:
    causes = [
        replace(cause, message=cause.message.removesuffix(" starting with iqn, eui, or naa"))
        for cause in validate_iscsi(source, field)
    ]
    return causes + _require_secret(source, field, "name")


def _validate_glusterfs(source: Object, field: str) -> list[Cause]:
    causes = needs("endpoints", "path")(source, field)
    namespace, field = source.get("endpointsNamespace"), f"{field}.endpointsNamespace"
    if namespace == "":
        causes.append(invalid_value(field, namespace, _NAMESPACE_RULE))
    elif namespace:
        causes += invalid_each(field, namespace, label_problems(namespace))
    return causes


def _validate_cinder(source: Object, field: str) -> list[Cause]:
    return validate_cinder(source, field) + _require_secret(source, field, "namespace")


def _validate_storage_os(source: Object, field: str) -> list[Cause]:
    return validate_storage_os(source, field) + _require_secret(source, field, "namespace")


def _validate_azure_file(source: Object, field: str) -> list[Cause]:
    causes = needs("secretName", "shareName")(source, field)
    if source.get("secretNamespace") == "":
        causes.append(required(f"{field}.secretNamespace"))
    return causes


def _validate_local(source: Object, field: str) -> list[Cause]:
    path = source.get("path")
    return validate_no_backsteps(path, f"{field}.path") if path else [required(f"{field}.path")]


def _validate_csi(source: Object, field: str) -> list[Cause]:
    causes = validate_csi_driver_name(source.get("driver") or "", f"{field}.driver")
    if not source.get("volumeHandle"):
        causes.append(required(f"{field}.volumeHandle"))
    for name in _CSI_SECRETS:
        if (secret := source.get(name)) is not None:
            causes += _validate_secret(secret, f"{field}.{name}")
    return causes


def _validate_secret(secret: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, problems_of in (("name", subdomain_problems), ("namespace", label_problems)):
        value, field_path = secret.get(name), f"{field}.{name}"
        causes += invalid_each(field_path, value, problems_of(value)) if value else [required(field_path)]
    return causes


def _require_secret(source: Object, field: str, name: str) -> list[Cause]:
    secret = source.get("secretRef")
    return [required(f"{field}.secretRef.{name}")] if secret is not None and not secret.get(name) else []


def _flex_volume(source: Object, field: str) -> list[Cause]:
    raise AssertionError("validated with the names of the server")


SOURCES: dict[str, Rule] = {
    "hostPath": validate_host_path,
    "gcePersistentDisk": validate_gce_disk,
    "awsElasticBlockStore": validate_aws_disk,
    "glusterfs": _validate_glusterfs,
    "flocker": validate_flocker,
    "nfs": validate_nfs,
    "rbd": needs("monitors", "image"),
    "quobyte": validate_quobyte,
    "cephfs": needs("monitors"),
    "iscsi": _validate_iscsi,
    "cinder": _validate_cinder,
    "fc": validate_fc,
    "flexVolume": _flex_volume,
    "azureFile": _validate_azure_file,
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": validate_azure_disk,
    "scaleIO": needs("gateway", "system", "volumeName"),
    "local": _validate_local,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
"""Rule by source, in the order in which upstream reads them: all after the first are errors, except ``flexVolume``."""
