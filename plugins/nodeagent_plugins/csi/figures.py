"""Figures and health of volumes, measured by their drivers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.plugin_rpc import RpcError
from nodeagent.contracts.persistent_volumes import VolumeFigures
from nodeagent.errors import VolumeError
from nodeagent_plugins.csi.drivers import CONDITION, GET_STATS, Driver, volume_error

if TYPE_CHECKING:
    from nodeagent.base.pluginproto import csi_pb2 as csi


async def measure(
    driver: Driver, handle: str, path: Path, *, health: bool = False, optional: bool = False
) -> VolumeFigures | None:
    """Return the figures of a volume, or ``None`` if the driver does not measure it.

    :param health: include the driver's view of the volume's health.
    :param optional: accept a response without usage from a driver that reports health.
    :raises VolumeError: the call failed, or the response has no usage.
    """
    async with driver.shared_step() as step:
        try:
            if not await step.has(GET_STATS):
                return None
            health = health and await step.has(CONDITION)
            response = await step.call("NodeGetVolumeStats", volume_id=handle, volume_path=str(path))
        except RpcError as error:
            raise volume_error(error) from error
    if not response.usage and not (health and optional):
        raise VolumeError("failed to get usage from response. usage is nil")
    size, inodes = (_usage(response, unit) for unit in ("BYTES", "INODES"))
    condition = response.volume_condition if health and response.HasField("volume_condition") else None
    return VolumeFigures(
        available=size.available,
        capacity=size.total,
        used=size.used,
        inodes=inodes.total,
        inodes_free=inodes.available,
        inodes_used=inodes.used,
        abnormal=condition.abnormal if condition is not None else None,
        message=condition.message if condition is not None else "",
    )


def _usage(response: csi.NodeGetVolumeStatsResponse, unit: str) -> csi.VolumeUsage:
    """Return the last usage in *unit*, or zeros."""
    from nodeagent.base.pluginproto import csi_pb2 as csi

    found = csi.VolumeUsage()
    for usage in response.usage:
        if usage.unit == csi.VolumeUsage.Unit.Value(unit):
            found = usage
    return found
