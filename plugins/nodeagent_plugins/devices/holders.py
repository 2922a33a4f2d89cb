"""Pods that have devices: those that a change affects, and their events about unhealthy devices."""

from __future__ import annotations

from collections.abc import Collection

from nodeagent.contracts.context import VolumesContext
from nodeagent.contracts.events import EventType
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.reservations import Reservations


def holders(reservations: Reservations, resource: str, devices: Collection[str]) -> set[str]:
    """Return the UIDs of the pods that have one of *devices*."""
    return {
        uid
        for (uid, _), name, assignment in reservations.allocations
        if name == resource and not set(devices).isdisjoint(assignment.ids)
    }


def note_unhealthy(
    context: VolumesContext, reservations: Reservations, resource: Resource, devices: Collection[str]
) -> None:
    """Record an event for each pod with one of *devices* that has become unhealthy."""
    if not resource.connected:
        return
    for (uid, container), name, assignment in reservations.allocations:
        pod = context.pods.get(uid) if name == resource.name else None
        if pod is None:
            continue
        for id in sorted(set(devices).intersection(assignment.ids)):
            health = resource.health(id)
            if health.health == "Unhealthy":
                detail = f": {health.message}" if health.message else ""
                note = f"Device {id} of {name} in container {container} is unhealthy{detail}"
                context.recorder.record(pod.reference(), EventType.WARNING, "DeviceUnhealthy", note)
