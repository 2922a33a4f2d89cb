"""Driver of the persistent volumes of the simulated node, and the claims that pods can use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nodeagent.base.simulation.latency import Latency
from nodeagent.testing.persistent_volumes import DRIVER, FakePersistentKind

CLAIMS = ("data-0", "data-1")
PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS = "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims"


class SimulatedDriver(FakePersistentKind):
    """Kind of volumes whose calls take time; its mounts outlive the agent, but not a loss of power.

    :param is_running: returns whether containers of a pod run, by its UID.
    """

    def __init__(self, seed: object, root: Path, is_running: Callable[[str], bool]) -> None:
        super().__init__(root, is_running)
        self.latency = Latency(f"{seed}/driver", 0.05, 10.0)

    async def _pass(self, method: str) -> None:
        await asyncio.sleep(self.latency())
        await super()._pass(method)

    def lose_power(self) -> None:
        """Remove all mounts; their directories remain."""
        for directory in self.published():
            (directory / "handle").unlink()
        for name in self.handles():
            (self._staging(name) / "staged").unlink()

    def handles(self) -> list[str]:
        """Return the handles of the staged volumes."""
        return [name.rpartition("^")[2] for name in self.staged()]

    def mounted_for(self, pod_uid: str) -> list[str]:
        """Return the handles of the volumes that are mounted for a pod."""
        return [(path / "handle").read_text() for path in self.published() if path.parts[-4] == pod_uid]

    def pods(self) -> set[str]:
        """Return the UIDs of the pods with mounted volumes."""
        return {path.parts[-4] for path in self.published()}


def claim_objects(claim: str, namespace: str) -> Mapping[str, dict[str, Any]]:
    """Return a bound claim and its volume by the path of their collections; the handle is the name of the claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
    amount = {"storage": "1Gi"}
    volume = {
        "metadata": {"name": f"pv-{claim}"},
        "spec": {
            **spec,
            "capacity": amount,
            "claimRef": {"name": claim, "namespace": namespace, "uid": f"uid-{claim}"},
            "csi": {"driver": DRIVER, "volumeHandle": claim},
        },
        "status": {"phase": "Bound"},
    }
    bound = {
        "metadata": {"name": claim, "uid": f"uid-{claim}"},
        "spec": {**spec, "volumeName": f"pv-{claim}", "resources": {"requests": amount}},
        "status": {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": amount},
    }
    return {PERSISTENT_VOLUMES: volume, PERSISTENT_VOLUME_CLAIMS: bound}
