"""Report of the volumes on this node, for ``nodeagent volumes``."""

from __future__ import annotations

import msgspec

from nodeagent.model.wire import WireStruct

VOLUMES_QUERY = "volumes"
"""Name of the local query."""


class VolumesRequest(WireStruct, frozen=True):
    """Selects volumes; empty fields select all."""

    namespace: str = ""
    pod: str = ""


class VolumeLine(WireStruct, frozen=True):
    """One volume of a pod, or a staged volume without a pod."""

    namespace: str = ""
    pod: str = ""
    pod_uid: str = msgspec.field(default="", name="podUID")
    owner: str = ""
    """Kind and name of the pod's controller; empty without one."""
    volume: str = ""
    """Name in the pod spec."""
    name: str = ""
    """Name of the volume's directory: the PersistentVolume, or the volume of the pod spec."""
    claim: str = ""
    driver: str = ""
    """The kind or its driver, as in metrics."""
    state: str = ""
    path: str = ""
    call: str = ""
    """The running or last failed operation; empty after a success."""
    running_seconds: float | None = None
    error: str = ""
    """The last error; empty after a success."""
    retry_seconds: float | None = None
    """Time until the next attempt; ``None`` if none is planned."""
    used_bytes: int | None = None
    available_bytes: int | None = None


class VolumesReport(WireStruct, frozen=True):
    """All selected volumes, by namespace, pod and name."""

    node: str
    volumes: list[VolumeLine]
