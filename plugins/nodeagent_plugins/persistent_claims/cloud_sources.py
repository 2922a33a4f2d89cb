"""Sources of CSI drivers that correspond to the in-tree sources of clouds. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.model.persistent_volume import (
    READ_ONLY_MANY,
    READ_WRITE_ONCE,
    CsiPersistentVolumeSource,
    SecretReference,
)
from nodeagent_plugins.persistent_claims.topology import ZONE_DELIMITER, ZONE_LABELS

EBS = "ebs.csi.aws.com"
AZURE_DISK = "disk.csi.azure.com"
AZURE_FILE = "file.csi.azure.com"
CINDER = "cinder.csi.openstack.org"
GCE = "pd.csi.storage.gke.io"
PORTWORX = "pxd.portworx.com"
VSPHERE = "csi.vsphere.vmware.com"

_EBS_ID = re.compile(r"vol-[^/]*")
_AZURE_SECRET = re.compile(r"azure-storage-account-(.+)-secret")
_AZURE_GROUP = "kubernetes.io/azure-file-resource-group"
_UNSPECIFIED = "UNSPECIFIED"
_GCE_ZONE_PARTS = 3


class Origin(Struct, frozen=True):
    """The PersistentVolume, or the volume of a pod, that contains a source."""

    name: str
    namespace: str
    """Namespace of the claim or of the pod; may be empty."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    inline: bool = False


def ebs(source: Mapping[str, Any], _origin: Origin) -> CsiPersistentVolumeSource:
    """Translate an AWS EBS volume, whose ID may have the form ``aws://<zone>/<id>``.

    :raises ValueError: the ID is invalid.
    """
    handle = str(source.get("volumeID", ""))
    if handle.startswith("aws://"):
        identifier = urlsplit(handle).path.strip("/")
        if not _EBS_ID.fullmatch(identifier):
            raise ValueError(
                f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({handle})"
            )
        handle = identifier
    return _csi(EBS, handle, source, {"partition": str(source.get("partition", 0))})


def azure_disk(source: Mapping[str, Any], _origin: Origin) -> CsiPersistentVolumeSource:
    """Translate a managed Azure disk.

    :raises ValueError: the disk is not managed.
    """
    kind = source.get("kind")
    if kind is not None and kind.lower() != "managed":
        raise ValueError(f"kind({kind}) is not supported in csi migration")
    attributes = {"kind": "Managed"}
    if source.get("cachingMode"):
        attributes["cachingmode"] = source["cachingMode"]
    if source.get("fsType") is not None:
        attributes["fstype"] = source["fsType"]
    return _csi(AZURE_DISK, source.get("diskURI", ""), source, attributes)


def azure_file(source: Mapping[str, Any], origin: Origin) -> CsiPersistentVolumeSource:
    """Translate an Azure file share.

    :raises ValueError: the namespace of the secret is unknown.
    """
    secret, share = source.get("secretName", ""), source.get("shareName", "")
    match = _AZURE_SECRET.search(secret)
    if origin.inline:
        namespace = origin.namespace or "default"
    else:
        given = source.get("secretNamespace")
        namespace = given if given is not None else origin.namespace
        if not namespace:
            raise ValueError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    group = origin.annotations.get(_AZURE_GROUP, "")
    return CsiPersistentVolumeSource(
        driver=AZURE_FILE,
        volume_handle="#".join((group, match[1] if match else secret, share, origin.name, namespace)),
        read_only=bool(source.get("readOnly")),
        volume_attributes={"sharename": share},
        node_stage_secret_ref=SecretReference(name=secret, namespace=namespace),
    )


def cinder(source: Mapping[str, Any], _origin: Origin) -> CsiPersistentVolumeSource:
    """Translate an OpenStack Cinder volume."""
    return _csi(CINDER, source.get("volumeID", ""), source, {})


def gce(source: Mapping[str, Any], origin: Origin) -> CsiPersistentVolumeSource:
    """Translate a GCE persistent disk; its zone or region is derived from the labels.

    :raises ValueError: the zones of a regional disk are invalid.
    """
    label = next((origin.labels[key] for key in reversed(ZONE_LABELS) if origin.labels.get(key)), "")
    zones = label.split(ZONE_DELIMITER)
    location = f"zones/{zones[0] or _UNSPECIFIED}" if len(zones) == 1 else f"regions/{_region(zones)}"
    handle = f"projects/{_UNSPECIFIED}/{location}/disks/{source.get('pdName', '')}"
    partition = source.get("partition", 0)
    return _csi(GCE, handle, source, {"partition": str(partition) if partition else ""})


def gce_access_modes(modes: Sequence[str] | None) -> list[str] | None:
    """Return the access modes that the driver supports for disks with the modes of the in-tree source."""
    if modes is None:
        return None
    # The in-tree plugin enforced no access modes; the driver rejects ReadWriteMany and combinations.
    return [READ_ONLY_MANY] if set(modes) == {READ_ONLY_MANY} else [READ_WRITE_ONCE]


def portworx(source: Mapping[str, Any], _origin: Origin) -> CsiPersistentVolumeSource:
    """Translate a Portworx volume."""
    return CsiPersistentVolumeSource(
        driver=PORTWORX,
        volume_handle=source.get("volumeID", ""),
        fs_type=source.get("fsType", ""),
        volume_attributes={},
    )


def vsphere(source: Mapping[str, Any], _origin: Origin) -> CsiPersistentVolumeSource:
    """Translate a vSphere volume."""
    policy = source.get("storagePolicyName")
    return CsiPersistentVolumeSource(
        driver=VSPHERE,
        volume_handle=source.get("volumePath", ""),
        fs_type=source.get("fsType", ""),
        volume_attributes={"storagepolicyname": policy} if policy else {},
    )


def _csi(driver: str, handle: str, source: Mapping[str, Any], attributes: dict[str, str]) -> CsiPersistentVolumeSource:
    return CsiPersistentVolumeSource(
        driver=driver,
        volume_handle=handle,
        read_only=bool(source.get("readOnly")),
        fs_type=source.get("fsType") or "",
        volume_attributes=attributes,
    )


def _region(zones: Sequence[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != _GCE_ZONE_PARTS:
            raise ValueError(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, "
                f"got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise ValueError(f"failed to get region from zones: multiple or no regions gotten from zones, got: {regions}")
    return regions.pop()
