"""Allocations from before a restart: from the checkpoint, and from annotations of containers. No I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nodeagent.contracts.runtime import (
    ANNOTATION_DEVICES,
    LABEL_CONTAINER_NAME,
    LABEL_POD_UID,
    ContainerInfo,
    ContainerState,
)
from nodeagent.errors import DeviceError
from nodeagent.model.extended_resources import is_extended_resource
from nodeagent_plugins.devices.allocations import Assignment
from nodeagent_plugins.devices.checkpoint import CheckpointData, Entry, by_node
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.reservations import Reservations
from nodeagent_plugins.devices.wire import decode_response, encode_response

_log = logging.getLogger(__name__)
_annotation = msgspec.json.Decoder(dict[str, list[str]])


def to_checkpoint(reservations: Reservations) -> CheckpointData:
    """Return the allocated devices and the healthy devices of each resource; reservations are not included."""
    entries = []
    for (uid, container), resource, each in reservations.allocations:
        if each.response is not None:
            if each.stored is None:
                content = encode_response(each.response)
                each.stored = Entry(uid, container, resource, by_node(each.ids, each.nodes), content)
            entries.append(each.stored)
    registered = {
        name: sorted(resource.healthy) if resource.restored is None else ()
        for name, resource in sorted(reservations.resources.items())
        if not resource.removed
    }
    return CheckpointData(entries, registered)


def restore_resources(reservations: Reservations, data: CheckpointData, now: float) -> None:
    """Add the resources of a checkpoint; their devices are unavailable until the provider returns.

    :param now: monotonic time.
    """
    for name, ids in data.registered.items():
        if is_extended_resource(name) and name not in reservations.resources:
            reservations.resources[name] = Resource(name, now, restored=len(ids))
        elif name in reservations.resources and not reservations.resources[name].connected:
            reservations.resources[name].restored = len(ids)


def restore_allocations(reservations: Reservations, data: CheckpointData, *, current: bool) -> None:
    """Add the allocations of a checkpoint.

    :param current: the checkpoint was written since the host booted; otherwise its allocations are dropped.
    """
    for entry in data.entries:
        fields = {"podUID": entry.uid, "containerName": entry.container, "resourceName": entry.resource}
        nodes: dict[str, tuple[int, ...]] = {}
        for node, listed in entry.devices.items():
            for id in listed:
                nodes[id] = (*nodes.get(id, ()), *((node,) if node >= 0 else ()))
        if not current:
            _log.info(
                "Dropped devices that were allocated before the host booted", extra={**fields, "ids": list(nodes)}
            )
            continue
        try:
            response = decode_response(entry.response)
        except DeviceError as error:
            _log.error("Failed to read checkpoint entry", extra={**fields, "err": str(error)})
            continue
        assignment = Assignment(tuple(nodes), {id: own for id, own in nodes.items() if own}, response)
        reservations.allocations.add(entry.uid, entry.container, entry.resource, assignment)


def restore_from_containers(reservations: Reservations, containers: Iterable[ContainerInfo], now: float) -> int:
    """Add the devices of containers that the checkpoint does not list; return their number.

    They keep their devices. If such a container is restarted, its devices are allocated again, without exchange.

    :param now: monotonic time.
    """
    found = 0
    for container in containers:
        uid, name = container.labels.get(LABEL_POD_UID, ""), container.labels.get(LABEL_CONTAINER_NAME, "")
        if container.state is ContainerState.EXITED or not uid or not name:
            continue
        for resource, ids in _devices_of(container.annotations).items():
            if reservations.allocations.get(uid, name, resource) is None:
                assignment = Assignment(tuple(ids), required=frozenset(ids))
                reservations.allocations.add(uid, name, resource, assignment)
                reservations.resources.setdefault(resource, Resource(resource, now, restored=0))
                found += 1
    return found


def annotation(devices: Mapping[str, Assignment]) -> Mapping[str, str]:
    """Return the annotation of a container that lists its devices by resource."""
    content: Any = {resource: each.ids for resource, each in sorted(devices.items())}
    return {ANNOTATION_DEVICES: msgspec.json.encode(content).decode()}


def _devices_of(annotations: Mapping[str, str]) -> Mapping[str, list[str]]:
    text = annotations.get(ANNOTATION_DEVICES)
    if text is None:
        return {}
    try:
        found = _annotation.decode(text)
    except msgspec.DecodeError as error:
        _log.error("Failed to read annotation of container", extra={"annotation": text[:253], "err": str(error)})
        return {}
    return {resource: ids for resource, ids in found.items() if is_extended_resource(resource)}
