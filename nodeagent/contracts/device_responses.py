"""Contents that devices add to a container, and their merge and validation. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime_config import Device, Mount
from nodeagent.errors import DeviceError

_MAX_ITEMS = 4096
_PERMISSIONS = re.compile("[rwm]*", re.ASCII)
_CDI_NAME = re.compile(
    r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?="
    r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?",
    re.ASCII,
)


class DeviceResponse(Struct, frozen=True):
    """Contents of a container; paths are those of the host."""

    envs: Mapping[str, str] = field(default_factory=dict)
    """Environment variables; those of the pod take precedence."""
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the container for the runtime; those of the agent take precedence."""
    cdi_devices: Sequence[str] = ()
    """Qualified CDI names, such as ``vendor.example/gpu=0``."""


class MergedResponse(Struct, frozen=True):
    """Result of :func:`merge_responses`.

    :ivar conflicts: one message per item that was ignored, because another source sets it differently.
    """

    response: DeviceResponse
    conflicts: Sequence[str] = ()


def merge_responses(responses: Iterable[tuple[str, DeviceResponse]]) -> MergedResponse:
    """Merge the responses for one container; the first source of an item takes precedence.

    Variables and annotations are identified by key, mounts and devices by path in the container, CDI devices by name.

    :param responses: source, such as a resource name, and response.
    """
    conflicts: list[str] = []
    envs: dict[str, tuple[str, str]] = {}
    annotations: dict[str, tuple[str, str]] = {}
    mounts: dict[str, tuple[str, Mount]] = {}
    devices: dict[str, tuple[str, Device]] = {}
    names: dict[str, None] = {}
    for source, response in responses:
        _add(envs, source, response.envs, "environment variable", conflicts)
        _add(annotations, source, response.annotations, "annotation", conflicts)
        _add(mounts, source, {each.container_path: each for each in response.mounts}, "mount", conflicts)
        _add(devices, source, {each.container_path: each for each in response.devices}, "device", conflicts)
        names.update(dict.fromkeys(response.cdi_devices))
    merged = DeviceResponse(
        {key: value for key, (_, value) in envs.items()},
        tuple(mount for _, mount in mounts.values()),
        tuple(device for _, device in devices.values()),
        {key: value for key, (_, value) in annotations.items()},
        tuple(names),
    )
    return MergedResponse(merged, conflicts)


def validate_response(response: DeviceResponse) -> None:
    """Check one response.

    :raises DeviceError: a path, permission or name is invalid, or two items contradict each other.
    """
    kinds = (response.envs, response.mounts, response.devices, response.annotations, response.cdi_devices)
    if any(len(items) > _MAX_ITEMS for items in kinds):
        raise DeviceError(f"the response has more than {_MAX_ITEMS} items of one kind")
    for name, value in response.envs.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise DeviceError(f"invalid environment variable {name[:253]!r}: must have a name without = and no NUL")
    for kind, items in (("mount", response.mounts), ("device", response.devices)):
        seen: dict[str, object] = {}
        for item in items:
            for path in (item.container_path, item.host_path):
                if not path.startswith("/") or "\0" in path:
                    raise DeviceError(f"invalid path {path[:253]!r} of a {kind}: must be absolute")
            if seen.setdefault(item.container_path, item) != item:
                raise DeviceError(f"conflicting {kind}s at container path {item.container_path[:253]!r}")
    for device in response.devices:
        if not _PERMISSIONS.fullmatch(device.permissions):
            raise DeviceError(
                f"invalid permissions {device.permissions[:253]!r} of device {device.host_path[:253]!r}: "
                "must consist of the letters r, w and m"
            )
    for name in response.cdi_devices:
        if not _CDI_NAME.fullmatch(name):
            raise DeviceError(f"invalid CDI device name {name[:253]!r}: must have the form vendor/class=device")


def _add(
    merged: dict[str, tuple[str, Any]], source: str, items: Mapping[str, Any], kind: str, conflicts: list[str]
) -> None:
    for key, value in items.items():
        first, existing = merged.setdefault(key, (source, value))
        if existing != value:
            conflicts.append(f"{kind} {key} of {source} is ignored, since {first} sets it differently")
