"""Claims that are prepared, or may be: their pods, and the devices of each driver. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import field

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.claims import ClaimReference, PreparedDevice


class DriverEntry(MutableStruct):
    """State of a claim with one driver."""

    prepared: bool = False
    devices: Sequence[PreparedDevice] = ()


class ClaimEntry(MutableStruct):
    """A claim that was passed to drivers, or will be; stored until all of them have unprepared it."""

    reference: ClaimReference
    pods: set[str] = field(default_factory=set)
    """UIDs of the pods that use it."""
    drivers: dict[str, DriverEntry] = field(default_factory=dict)

    @property
    def is_prepared(self) -> bool:
        return all(driver.prepared for driver in self.drivers.values())

    def unprepared(self) -> list[str]:
        """Return the drivers that have not prepared the claim."""
        return [name for name, driver in self.drivers.items() if not driver.prepared]

    def devices(self, request: str = "") -> Iterator[tuple[str, PreparedDevice]]:
        """Yield the devices for *request*, for all requests if it is empty, with their drivers.

        A driver reports a request with alternatives by its name, with or without that of the alternative.
        """
        parent = request.partition("/")[0]
        for name, driver in self.drivers.items():
            for device in driver.devices:
                names = device.requests
                if not request or not names or {request, parent} & {part for n in names for part in _names(n)}:
                    yield name, device


def _names(request: str) -> tuple[str, str]:
    return request, request.partition("/")[0]


class ClaimCache:
    """All entries, by UID of the claim."""

    def __init__(self, entries: Iterable[ClaimEntry] = ()) -> None:
        self.entries: dict[str, ClaimEntry] = {entry.reference.uid: entry for entry in entries}

    def find(self, namespace: str, name: str, pod_uid: str) -> ClaimEntry | None:
        """Return the entry of a claim that is used by a pod."""
        for entry in self.entries.values():
            found = entry.reference
            if (found.namespace, found.name) == (namespace, name) and pod_uid in entry.pods:
                return entry
        return None

    def of_pod(self, pod_uid: str) -> list[ClaimEntry]:
        """Return the claims that a pod uses."""
        return [entry for entry in self.entries.values() if pod_uid in entry.pods]

    def pods(self) -> set[str]:
        """Return the UIDs of all pods that use a claim."""
        return {uid for entry in self.entries.values() for uid in entry.pods}

    def in_use(self) -> Mapping[str, int]:
        """Return the number of claims by driver."""
        counts: dict[str, int] = {}
        for entry in self.entries.values():
            for name in entry.drivers:
                counts[name] = counts.get(name, 0) + 1
        return counts
