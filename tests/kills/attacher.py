"""External attacher: executes the VolumeAttachments that the API server's controller requests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.integration.programs import NODE
from tests.kills.parties import DRIVER, MERGE, STORAGE_API, Parties

_ATTACHMENTS = f"{STORAGE_API}/volumeattachments"
_FINALIZER = "external-attacher/csi-kills"
_INTERVAL_SECONDS = 0.3


class Attacher(threading.Thread):
    """Marks VolumeAttachments as attached, and removes their finalizer when they are deleted.

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
                for attachment in self._attachments():
                    self._execute(attachment)
            except Exception as error:
                self.problem = repr(error)

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def attached(self) -> list[str]:
        """Return the names of the VolumeAttachments, and of the volumes in the node status."""
        status = self._parties.call("GET", f"/api/v1/nodes/{NODE}").get("status")
        status = status if isinstance(status, dict) else {}  # The node may not be registered.
        names = [item["metadata"]["name"] for item in self._attachments()]
        in_status = [each["name"] for each in status.get("volumesAttached") or ()]
        return [*names, *in_status, *(status.get("volumesInUse") or ())]

    def _attachments(self) -> list[Any]:
        return list(self._parties.call("GET", _ATTACHMENTS).get("items") or ())

    def _execute(self, attachment: Any) -> None:
        metadata, path = attachment["metadata"], f"{_ATTACHMENTS}/{attachment['metadata']['name']}"
        if metadata.get("deletionTimestamp"):
            handle = str(attachment["spec"]["source"]["persistentVolumeName"]).removeprefix("pv-")
            if attachment["spec"]["attacher"] == DRIVER and (staged := self._parties.driver.storage.staged(handle)):
                self._violate(f"{handle} is detached while it is staged at {staged}")
            self._parties.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
        elif not (attachment.get("status") or {}).get("attached"):
            self._parties.call("PATCH", path, {"metadata": {"finalizers": [_FINALIZER]}}, MERGE)
            self._parties.call("PATCH", f"{path}/status", {"status": {"attached": True}}, MERGE)
