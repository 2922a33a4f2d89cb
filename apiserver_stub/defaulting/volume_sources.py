"""Default values of volume sources that pods and persistent volumes share."""

from __future__ import annotations

from apiserver_stub.defaulting.table import Defaults

VOLUME_SOURCES = {
    "hostPath": Defaults({"type": ""}),
    "iscsi": Defaults({"iscsiInterface": "default"}),
    "rbd": Defaults({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
    "azureDisk": Defaults({"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False}),
    "scaleIO": Defaults({"storageMode": "ThinProvisioned", "fsType": "xfs"}),
}
"""Table by the name of the source."""
