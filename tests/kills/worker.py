"""Workers: each creates a claim, runs pods that write to it, expands and deletes it, and starts over."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.programs import NODE, simple_pod
from tests.kills.parties import DRIVER, MERGE, Parties, wait_for

MOUNT, WRITE, EXPAND, UNMOUNT, DELETE, IDLE = "mounting", "writing", "expanding", "unmounting", "deleting", "idle"
PHASES = (MOUNT, WRITE, EXPAND, UNMOUNT, DELETE)
FILES, BLOCK, LOCAL, INLINE = "CSI file system", "CSI block", "local-path", "CSI inline"
KINDS = (FILES, LOCAL, BLOCK, INLINE)
PHASE_SECONDS = 300.0
"""Time limit of one phase, which includes back-offs of up to two minutes after several kills."""
_NAMESPACE = "/api/v1/namespaces/default"
_MEBIBYTE = 1 << 20
_RECORDS = (
    "s=$(cat /proc/sys/kernel/random/uuid); n=0; trap 'exit 0' TERM; while :; do n=$((n+1)); "
    'if echo "$s $n" >> /data/journal && sync /data/journal; then echo "$s $n" >> /ack/acknowledged; '
    'else echo "$s $n" >> /ack/failed; fi; usleep 100000; done'
)
# The data of an inline volume ends with its pod, which therefore reads each record again.
_VERIFIED_RECORDS = (
    "s=$(cat /proc/sys/kernel/random/uuid); n=0; trap 'exit 0' TERM; while :; do n=$((n+1)); "
    'if echo "$s $n" >> /data/journal && sync /data/journal && [ "$(tail -n 1 /data/journal)" = "$s $n" ]; '
    'then echo "$s $n" >> /ack/acknowledged; else echo "$s $n" >> /ack/failed; fi; usleep 100000; done'
)
# A device has one record; the number is that of the last write.
_NUMBER = (
    "n=$(dd if=/dev/data bs=512 count=1 2>/dev/null | tr -d '\\0 '); n=${n:-0}; trap 'exit 0' TERM; while :; do "
    "n=$((n+1)); if printf %-512d $n | dd of=/dev/data conv=fsync,notrunc 2>/dev/null; then "
    "echo $n >> /ack/acknowledged; else echo $n >> /ack/failed; fi; usleep 100000; done"
)


class Worker(threading.Thread):
    """One claim at a time, with one pod after another.

    :ivar phase: what the worker waits for now.
    :ivar phases: counts the completed phases.
    :param violate: called with a description of lost data, or of a phase that does not end.
    """

    def __init__(self, name: str, kind: str, parties: Parties, seed: str, violate: Callable[[str], None]) -> None:
        super().__init__(name=name, daemon=True)
        self.kind, self.phase, self.phases = kind, IDLE, 0
        self._parties, self._violate = parties, violate
        self._random = random.Random(f"{seed} {name}")
        self._finish = threading.Event()
        self._rounds = 0

    def run(self) -> None:
        try:
            while not self._finish.is_set():
                self._claim_once()
        except Exception as error:
            self._violate(f"{self.name} in phase {self.phase}: {error}")
        finally:
            self.phase = IDLE

    def finish(self) -> None:
        """End after the deletion of the current claim."""
        self._finish.set()

    # --- phases -----------------------------------------------------------------------------------------------

    def _claim_once(self) -> None:
        self._rounds += 1
        kind = InlineVolume if self.kind == INLINE else Claim
        claim = kind(f"{self.name}-{self._rounds}", self.kind, self._parties, self._random)
        claim.create()
        for number in range(self._random.randint(1, 3)):
            if number and self._finish.is_set():
                break
            pods = [f"{claim.name}-{number}{suffix}" for suffix in ("", "b")[: claim.pods]]
            self._enter(MOUNT)
            before = claim.writers()
            for pod in pods:
                claim.start(pod)
            self._until(lambda: len(claim.writers() - before) >= len(pods), f"pods {pods} write")  # noqa: B023
            self._enter(WRITE)
            time.sleep(self._random.uniform(0, 3))
            self._check(claim)
            if claim.expandable and self._random.random() < 0.5:
                self._enter(EXPAND)
                size = claim.expand()
                self._until(lambda: claim.size() >= size, f"claim {claim.name} has {size} bytes")  # noqa: B023
            self._enter(UNMOUNT)
            for pod in pods:
                claim.stop(pod)
                self._until(lambda: claim.is_gone("pods", pod), f"pod {pod} is deleted")  # noqa: B023
                self._check(claim)
        self._enter(DELETE)
        claim.delete()
        self._until(claim.is_deleted, f"claim {claim.name} is deleted")
        self._enter(IDLE)

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self.phases += 1

    def _until(self, condition: Callable[[], Any], what: str) -> None:
        wait_for(condition, what, PHASE_SECONDS)

    def _check(self, claim: Claim) -> None:
        if lost := claim.lost():
            self._violate(f"claim {claim.name} ({self.kind}): {lost}")


class Claim:
    """A claim, its volume and the records of its pods."""

    def __init__(self, name: str, kind: str, parties: Parties, numbers: random.Random) -> None:
        self.name, self.kind = name, kind
        self._parties = parties
        self._subpath = "inner/directory" if kind != BLOCK and numbers.random() < 0.4 else ""
        self._group = 1000 if numbers.random() < 0.3 else None
        # A forced deletion allows the next pod to write while the processes of the first still end.
        self._forced = kind != BLOCK and numbers.random() < 0.2
        self._sized, self._local_path = _MEBIBYTE, ""
        self._acknowledged = parties.directory / "acknowledged" / name
        self.expandable = True
        self.pods = 2 if kind in (FILES, LOCAL) and numbers.random() < 0.3 else 1
        """Number of pods that write at the same time."""

    def create(self) -> None:
        self._acknowledged.mkdir(parents=True)
        size = {"storage": str(self._sized)}
        spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
        if self.kind != LOCAL:
            spec |= {"volumeMode": "Block" if self.kind == BLOCK else "Filesystem", "storageClassName": ""}
            common = {name: spec[name] for name in ("accessModes", "volumeMode", "storageClassName")}
            csi = {"driver": DRIVER, "volumeHandle": self.name}
            volume = {**common, "capacity": size, "csi": csi, "persistentVolumeReclaimPolicy": "Retain"}
            body = {"metadata": {"name": f"pv-{self.name}"}, "spec": volume}
            self._created("POST", "/api/v1/persistentvolumes", body)
            spec["volumeName"] = f"pv-{self.name}"
        self._created("POST", f"{_NAMESPACE}/persistentvolumeclaims", {"metadata": {"name": self.name}, "spec": spec})

    def start(self, pod: str) -> None:
        """Create a pod that writes records to the claim."""
        volumes = [{"name": "data", **self._source}, {"name": "ack", "hostPath": {"path": str(self._acknowledged)}}]
        uid = {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
        script = {BLOCK: _NUMBER, INLINE: _VERIFIED_RECORDS}.get(self.kind, _RECORDS)
        container: dict[str, Any] = {
            # The UID identifies the process on the host.
            "command": ["/bin/sh", "-c", script, "writer", "$(POD_UID)"],
            "env": [uid],
            "volumeMounts": [{"name": "ack", "mountPath": "/ack"}],
        }
        if self.kind == BLOCK:
            container["volumeDevices"] = [{"name": "data", "devicePath": "/dev/data"}]
        else:
            mount = {"name": "data", "mountPath": "/data"} | ({"subPath": self._subpath} if self._subpath else {})
            container["volumeMounts"].append(mount)
        spec: dict[str, Any] = {"volumes": volumes, "container": container, "metadata": {}}
        if self.kind != LOCAL:
            spec |= {"nodeName": NODE, "metadata": {"labels": {"handle": self.name}}}
        if self._group is not None:
            spec["securityContext"] = {"fsGroup": self._group}
        self._created("POST", f"{_NAMESPACE}/pods", simple_pod(pod, "", **spec))

    @property
    def _source(self) -> dict[str, Any]:
        return {"persistentVolumeClaim": {"claimName": self.name}}

    def stop(self, pod: str) -> None:
        options = {"gracePeriodSeconds": 0 if self._forced else 1}
        self._parties.call("DELETE", f"{_NAMESPACE}/pods/{pod}", options)

    def expand(self) -> int:
        """Request a larger size; for a CSI volume as its controller does after the expansion of the volume."""
        self._sized += _MEBIBYTE
        size = {"storage": str(self._sized)}
        if self.kind == LOCAL:
            patch = {"spec": {"resources": {"requests": size}}}
            self._parties.call("PATCH", f"{_NAMESPACE}/persistentvolumeclaims/{self.name}", patch, MERGE)
        else:
            patch = {"spec": {"capacity": size}}
            self._parties.call("PATCH", f"/api/v1/persistentvolumes/pv-{self.name}", patch, MERGE)
            pending = {"type": "FileSystemResizePending", "status": "True"}
            path = f"{_NAMESPACE}/persistentvolumeclaims/{self.name}/status"
            self._parties.call("PATCH", path, {"status": {"conditions": [pending]}}, MERGE)
        return self._sized

    def size(self) -> int:
        """Return the size in the status of the claim, in bytes."""
        claim = self._parties.call("GET", f"{_NAMESPACE}/persistentvolumeclaims/{self.name}")
        text = str((claim.get("status") or {}).get("capacity", {}).get("storage", "0"))
        return int(text.removesuffix("Mi")) * _MEBIBYTE if text.endswith("Mi") else int(text)

    def delete(self) -> None:
        if self.kind == LOCAL:
            self._local_path = str(self._directory().parent)
        self._parties.call("DELETE", f"{_NAMESPACE}/persistentvolumeclaims/{self.name}")
        if self.kind != LOCAL:
            self._parties.call("DELETE", f"/api/v1/persistentvolumes/pv-{self.name}")

    def is_deleted(self) -> bool:
        if not self.is_gone("persistentvolumeclaims", self.name):
            return False
        if self.kind == LOCAL:
            return not Path(self._local_path).exists()
        return bool(self._parties.call("GET", f"/api/v1/persistentvolumes/pv-{self.name}").get("code") == 404)

    def is_gone(self, resource: str, name: str) -> bool:
        return bool(self._parties.call("GET", f"{_NAMESPACE}/{resource}/{name}").get("code") == 404)

    # --- records ----------------------------------------------------------------------------------------------

    def writers(self) -> set[str]:
        """Return the identifiers of the processes that have reported records; for a device, the last record."""
        return {line.split()[0] for line in self._lines(self._acknowledged / "acknowledged")}

    def lost(self) -> str:
        """Return which acknowledged records are not in the volume; empty if none is missing."""
        acknowledged = self._lines(self._acknowledged / "acknowledged")  # Before the volume is read.
        if failed := self._lines(self._acknowledged / "failed"):
            return f"{len(failed)} writes failed, the first is {failed[0]}"
        if self.kind == BLOCK:
            image = self._parties.driver.storage.volume(self.name, block=True)
            found = int(image.read_bytes()[:512].strip(b"\0 ") or 0)
            last = max(map(int, acknowledged), default=0)
            return f"the device has record {found}, but {last} was synced" if found < last else ""
        journal = self._directory() / self._subpath / "journal"
        missing = set(acknowledged) - set(self._lines(journal))
        return f"{len(missing)} of {len(acknowledged)} synced records are not in {journal}" if missing else ""

    def _directory(self) -> Path:
        """Return the directory that contains the data of the volume."""
        if self.kind == FILES:
            return self._parties.driver.storage.volume(self.name, block=False)
        claim = self._parties.call("GET", f"{_NAMESPACE}/persistentvolumeclaims/{self.name}")
        volume = self._parties.call("GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
        return Path(volume["spec"]["local"]["path"])

    def _created(self, method: str, path: str, body: Any) -> None:
        response = self._parties.call(method, path, body)
        assert response.get("code") in (None, 409), response

    @staticmethod
    def _lines(file: Path) -> list[str]:
        # A line that is being written has no end yet.
        text = file.read_text() if file.exists() else ""
        return [line.removesuffix("\n") for line in text.splitlines(keepends=True) if line.endswith("\n")]


class InlineVolume(Claim):
    """A CSI volume in the specification of each pod, without a claim."""

    def __init__(self, name: str, kind: str, parties: Parties, numbers: random.Random) -> None:
        super().__init__(name, kind, parties, numbers)
        self._forced, self.expandable = False, False

    def create(self) -> None:
        self._acknowledged.mkdir(parents=True)

    @property
    def _source(self) -> dict[str, Any]:
        return {"csi": {"driver": DRIVER, "volumeAttributes": {"name": self.name}}}

    def delete(self) -> None:
        """Do nothing: the volume was deleted with its pod."""

    def is_deleted(self) -> bool:
        return True

    def lost(self) -> str:
        failed = self._lines(self._acknowledged / "failed")
        return f"{len(failed)} writes failed, the first is {failed[0]}" if failed else ""
