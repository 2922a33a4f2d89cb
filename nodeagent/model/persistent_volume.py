"""PersistentVolumes and PersistentVolumeClaims: the fields that a node reads."""

from __future__ import annotations

from typing import Any

import msgspec

from nodeagent.model.meta import ObjectMeta, ObjectReference
from nodeagent.model.pod import FlexVolume, HostPathVolume
from nodeagent.model.wire import WireStruct

FILESYSTEM, BLOCK = "Filesystem", "Block"
"""Values of ``volumeMode``."""

READ_WRITE_ONCE = "ReadWriteOnce"
READ_ONLY_MANY = "ReadOnlyMany"
READ_WRITE_MANY = "ReadWriteMany"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class SecretReference(WireStruct, frozen=True):
    """A Secret of any namespace."""

    name: str = ""
    namespace: str = ""


class CsiPersistentVolumeSource(WireStruct, frozen=True):
    """A volume of a CSI driver."""

    driver: str
    volume_handle: str
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class LocalVolumeSource(WireStruct, frozen=True):
    """A directory or block device of one node."""

    path: str
    fs_type: str | None = None


class NfsVolumeSource(WireStruct, frozen=True):
    """A directory that an NFS server exports."""

    server: str
    path: str
    read_only: bool = False


class VolumeNodeAffinity(WireStruct, frozen=True):
    """Nodes from which a volume is accessible."""

    required: dict[str, Any] | None = None


class PersistentVolumeSpec(WireStruct, frozen=True):
    """Specification of a PersistentVolume; exactly one source is set. Other sources are kept as plain data."""

    capacity: dict[str, str] | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: list[str] | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    nfs: NfsVolumeSource | None = None
    host_path: HostPathVolume | None = None
    flex_volume: FlexVolume | None = None
    iscsi: dict[str, Any] | None = None
    fc: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    flocker: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    glusterfs: dict[str, Any] | None = None
    photon_persistent_disk: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    quobyte: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    scale_io: dict[str, Any] | None = msgspec.field(default=None, name="scaleIO")
    storageos: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None


class PersistentVolume(WireStruct, frozen=True):
    """A PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class ClaimResources(WireStruct, frozen=True):
    """Requested and permitted sizes of a claim."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class PersistentVolumeClaimSpec(WireStruct, frozen=True):
    """Specification of a claim."""

    access_modes: list[str] | None = None
    resources: ClaimResources | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None


class PersistentVolumeClaimStatus(WireStruct, frozen=True):
    """Status of a claim."""

    phase: str = ""
    access_modes: list[str] | None = None
    capacity: dict[str, str] | None = None
    allocated_resources: dict[str, str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    conditions: list[dict[str, Any]] | None = None


class PersistentVolumeClaim(WireStruct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
