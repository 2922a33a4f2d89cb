"""Objects of which only one field may be set, in published schemas. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object

_UNIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "core.AppArmorProfile": ("type", ("localhostProfile",)),
    "core.PodSchedulingGroup": ("", ("podGroupName",)),
    "core.SeccompProfile": ("type", ("localhostProfile",)),
    "flowcontrol.LimitResponse": ("type", ("queuing",)),
    "flowcontrol.PriorityLevelConfigurationSpec": ("type", ("exempt", "limited")),
    "flowcontrol.Subject": ("kind", ("group", "serviceAccount", "user")),
}
"""Message → field that states which one is set, empty without it, and the fields."""


def of(message: str) -> Object:
    """Return the union of *message*, such as ``core.SeccompProfile``; empty for other messages."""
    if message not in _UNIONS:
        return {}
    discriminator, fields = _UNIONS[message]
    found: Object = {"fields-to-discriminateBy": {name: name[0].upper() + name[1:] for name in fields}}
    return {"discriminator": discriminator, **found} if discriminator else found
