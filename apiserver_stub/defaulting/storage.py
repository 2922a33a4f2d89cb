"""Default values of storage classes, CSI drivers, persistent volumes, claims and attachments."""

from __future__ import annotations

from apiserver_stub.defaulting.table import Defaults
from apiserver_stub.defaulting.volume_sources import VOLUME_SOURCES

STORAGE_CLASS = Defaults({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
_DRIVER_VALUES = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "volumeLifecycleModes": ["Persistent"],
    "requiresRepublish": False,
}
DRIVER = Defaults(below={"spec": Defaults(_DRIVER_VALUES)})
DRIVER_WITH_SELINUX_MOUNT = Defaults(below={"spec": Defaults({**_DRIVER_VALUES, "seLinuxMount": False})})
"""Defaults with the gate ``SELinuxMountReadWriteOncePod``."""

_VOLUME_SPEC = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
_PHASE = Defaults({"phase": "Pending"})
VOLUME = Defaults(below={"spec": Defaults(_VOLUME_SPEC, below=VOLUME_SOURCES), "status": _PHASE})
CLAIM = Defaults(below={"spec": Defaults({"volumeMode": "Filesystem"}), "status": _PHASE})
ATTACHMENT = Defaults(
    below={"spec": Defaults(below={"source": Defaults(below={"inlineVolumeSpec": Defaults(below=VOLUME_SOURCES)})})}
)
