"""Default values of fields in published schemas of version 3. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apiserver_stub.schema.shapes import Form, Shape

_DECLARED: Mapping[str, tuple[Any, int]] = {
    "core.AzureDiskVolumeSource.cachingMode": ("ReadWrite", 32),
    "core.AzureDiskVolumeSource.fsType": ("ext4", 32),
    "core.AzureDiskVolumeSource.kind": ("Shared", 32),
    "core.AzureDiskVolumeSource.readOnly": (False, 32),
    "core.ConfigMapEnvSource.name": ("", 31),
    "core.ConfigMapKeySelector.name": ("", 31),
    "core.ConfigMapProjection.name": ("", 31),
    "core.ConfigMapVolumeSource.name": ("", 31),
    "core.ContainerPort.protocol": ("TCP", 0),
    "core.FileKeySelector.optional": (False, 34),
    "core.GRPCAction.service": ("", 0),
    "core.HostAlias.ip": ("", 31),
    "core.HostIP.ip": ("", 31),
    "core.ISCSIPersistentVolumeSource.iscsiInterface": ("default", 32),
    "core.ISCSIVolumeSource.iscsiInterface": ("default", 32),
    "core.LocalObjectReference.name": ("", 31),
    "core.PodIP.ip": ("", 31),
    "core.RBDPersistentVolumeSource.keyring": ("/etc/ceph/keyring", 32),
    "core.RBDPersistentVolumeSource.pool": ("rbd", 32),
    "core.RBDPersistentVolumeSource.user": ("admin", 32),
    "core.RBDVolumeSource.keyring": ("/etc/ceph/keyring", 32),
    "core.RBDVolumeSource.pool": ("rbd", 32),
    "core.RBDVolumeSource.user": ("admin", 32),
    "core.ReplicationControllerSpec.minReadySeconds": (0, 33),
    "core.ReplicationControllerSpec.replicas": (1, 33),
    "core.ScaleIOPersistentVolumeSource.fsType": ("xfs", 32),
    "core.ScaleIOPersistentVolumeSource.storageMode": ("ThinProvisioned", 32),
    "core.ScaleIOVolumeSource.fsType": ("xfs", 32),
    "core.ScaleIOVolumeSource.storageMode": ("ThinProvisioned", 32),
    "core.SecretEnvSource.name": ("", 31),
    "core.SecretKeySelector.name": ("", 31),
    "core.SecretProjection.name": ("", 31),
    "core.ServicePort.protocol": ("TCP", 0),
    "autoscaling.ScaleSpec.replicas": (0, 33),
    "resource.DeviceToleration.operator": ("Equal", 33),
}
"""Message and field → default, and the first minor release that states it."""
_WITH_ZERO = (Form.TEXT, Form.INT32, Form.INT64, Form.BOOL, Form.FLOAT)
"""Types whose fields have their zero value as default, if they are always present in JSON.

kube-apiserver states empty objects too, with which generators of clients cannot create operations.
"""
_WITHOUT_ELEMENTS_SINCE = 35
"""First minor release that states no defaults of list items and map values."""


def of_field(shape: Shape, message: str, name: str, minor: int) -> Any:
    """Return the default of field *name* of *shape*, the schema of *message*; ``None`` for a field without one."""
    declared, since = _DECLARED.get(f"{message}.{name}", (None, 0))
    if declared is not None and minor >= since:
        return declared
    return shape.always.get(name) if shape.members[name].form in _WITH_ZERO else None


def of_element(shape: Shape, minor: int) -> Any:
    """Return the default of a list item or map value of *shape*; ``None`` for one without a default."""
    if minor >= _WITHOUT_ELEMENTS_SINCE or shape.form not in _WITH_ZERO:
        return None
    return shape.zero()
