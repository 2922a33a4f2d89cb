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


def driver_defaults(*names: str) -> Defaults:
    """Return the default values of CSI drivers; those of the fields *names*, which depend on gates, are false."""
    return Defaults(below={"spec": Defaults({**_DRIVER_VALUES, **dict.fromkeys(names, False)})})


_VOLUME_SPEC = {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}
_PHASE = Defaults({"phase": "Pending"})
VOLUME = Defaults(below={"spec": Defaults(_VOLUME_SPEC, below=VOLUME_SOURCES), "status": _PHASE})
CLAIM = Defaults(below={"spec": Defaults({"volumeMode": "Filesystem"}), "status": _PHASE})
ATTACHMENT = Defaults(
    below={"spec": Defaults(below={"source": Defaults(below={"inlineVolumeSpec": Defaults(below=VOLUME_SOURCES)})})}
)
