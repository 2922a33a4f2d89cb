"""The last generation of a pod's status, to detect that the next one would have the same result. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.model.pod import PodStatus

T = TypeVar("T")


class Lookups:
    """Lookups during a generation, with their results.

    :param probes: returns the result of a container's probe.
    :param device_health: returns the health of a container's devices, given its name.
    """

    def __init__(
        self,
        probes: Callable[[str, ProbeKind], ProbeResult | None],
        device_health: Callable[[str], Mapping[str, Sequence[DeviceHealth]]],
    ) -> None:
        self._probes, self._device_health = probes, device_health
        self._found: list[tuple[Callable[[], Any], Any]] = []

    def probe(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        return self._record(partial(self._probes, container_id, kind))

    def device_health(self, container: str) -> Mapping[str, Sequence[DeviceHealth]]:
        return self._record(partial(self._device_health, container))

    def unchanged(self) -> bool:
        """Return whether all lookups have the same results now."""
        return all(call() == found for call, found in self._found)

    def _record(self, call: Callable[[], T]) -> T:
        found = call()
        self._found.append((call, found))
        return found


class LastGeneration(MutableStruct):
    """A generation that did not change the status, so that it has the same result until an input changes.

    The current time is not an input: it only determines the times of changes.
    """

    objects: tuple[object, ...]
    """Inputs that are replaced when they change."""
    values: tuple[object, ...]
    lookups: Lookups
    status: PodStatus

    def applies(self, objects: tuple[object, ...], values: tuple[object, ...]) -> bool:
        """Return whether a generation with these inputs has the same result."""
        same = all(now is before for now, before in zip(objects, self.objects, strict=True))
        return same and values == self.values and self.lookups.unchanged()
