"""Attach controller and external attacher: a VolumeAttachment per volume of the pods on the node."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from tests.integration.programs import NODE
from tests.kills.parties import DRIVER, MERGE, STORAGE_API, Parties

_ATTACHMENTS = f"{STORAGE_API}/volumeattachments"
_NODE = f"/api/v1/nodes/{NODE}"
_INTERVAL_SECONDS = 0.3


class Attacher(threading.Thread):
    """Attaches the volumes that pods use, and detaches those that neither a pod nor the node uses.

    As the controller does, it removes a volume from the node status before it reads the node again and detaches.

    :param violate: called with a description if a volume is detached while it is staged.
    """

    def __init__(self, parties: Parties, violate: Callable[[str], None]) -> None:
        super().__init__(name="attacher", daemon=True)
        self._parties, self._violate = parties, violate
        self._stop_requested = threading.Event()
        self.problem = ""

    def run(self) -> None:
        while not self._stop_requested.wait(_INTERVAL_SECONDS):
            try:
                self._reconcile()
            except AssertionError as error:
                self.problem = str(error)

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def attached(self) -> list[str]:
        """Return the names of the VolumeAttachments, and of the volumes in the node status."""
        status = self._node_status()
        names = [item["metadata"]["name"] for item in self._items(_ATTACHMENTS)]
        in_status = [each["name"] for each in status.get("volumesAttached") or ()]
        return [*names, *in_status, *(status.get("volumesInUse") or ())]

    def _reconcile(self) -> None:
        needed = self._needed()
        existing = {item["metadata"]["name"]: item for item in self._items(_ATTACHMENTS)}
        for name, volume in needed.items():
            if name not in existing:
                spec = {"attacher": DRIVER, "nodeName": NODE, "source": {"persistentVolumeName": volume}}
                body = {"metadata": {"name": name}, "spec": spec}
                self._parties.call("POST", _ATTACHMENTS, body)
                status = {"status": {"attached": True}}
                self._parties.call("PATCH", f"{_ATTACHMENTS}/{name}/status", status, MERGE)
            elif not (existing[name].get("status") or {}).get("attached"):
                self._parties.call("PATCH", f"{_ATTACHMENTS}/{name}/status", {"status": {"attached": True}}, MERGE)
        handles = {name: self._handle(item) for name, item in existing.items()}
        status = self._node_status()
        in_use = set(status.get("volumesInUse") or ())
        unused = {n: h for n, h in handles.items() if n not in needed and unique_name(h) not in in_use}
        expected = sorted({unique_name(volume.removeprefix("pv-")) for volume in needed.values()} | {
            unique_name(handle) for name, handle in handles.items() if name not in unused
        })  # fmt: skip
        if expected != sorted(each["name"] for each in status.get("volumesAttached") or ()):
            attached = [{"name": name, "devicePath": ""} for name in expected]
            self._parties.call("PATCH", f"{_NODE}/status", {"status": {"volumesAttached": attached}}, MERGE)
        if unused:
            in_use = set(self._node_status().get("volumesInUse") or ())
        for name, handle in unused.items():
            if unique_name(handle) in in_use:
                continue  # The next round attaches it again.
            if staged := self._parties.driver.storage.staged(handle):
                self._violate(f"{handle} is detached while it is staged at {staged}")
            self._parties.call("DELETE", f"{_ATTACHMENTS}/{name}")

    def _needed(self) -> dict[str, str]:
        """Return the PersistentVolumes of pods by the name of their attachment."""
        found = {}
        for pod in self._items("/api/v1/namespaces/default/pods"):
            handle = (pod["metadata"].get("labels") or {}).get("handle")
            if handle and pod["spec"].get("nodeName"):
                found[attachment_name(handle)] = f"pv-{handle}"
        return found

    def _items(self, path: str) -> list[Any]:
        return list(self._parties.call("GET", path).get("items") or ())

    def _node_status(self) -> Any:
        return self._parties.call("GET", _NODE).get("status") or {}

    @staticmethod
    def _handle(attachment: Any) -> str:
        return str(attachment["spec"]["source"]["persistentVolumeName"]).removeprefix("pv-")


def attachment_name(handle: str) -> str:
    return "csi-" + hashlib.sha256(f"{handle}{DRIVER}{NODE}".encode()).hexdigest()


def unique_name(handle: str) -> str:
    """Return the name of a volume in the node status."""
    return f"kubernetes.io/csi/{DRIVER}^{handle}"
