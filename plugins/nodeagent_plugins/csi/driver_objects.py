"""CSIDriver objects: list and watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from nodeagent.base.aio import Clock
from nodeagent.contracts.api import CSI_DRIVERS, Api, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import TransientVolumeError
from nodeagent.model.wire import WireStruct
from nodeagent_plugins.csi.names import PREFIX

_SYNC_SECONDS = 120.0

_log = logging.getLogger(__name__)

FS_GROUP_NONE, FS_GROUP_FILE, FS_GROUP_BY_TYPE = "None", "File", "ReadWriteOnceWithFSType"


class TokenRequest(WireStruct, frozen=True):
    """A token that a driver requests for each volume."""

    audience: str = ""
    expiration_seconds: int | None = None


class DriverSpec(WireStruct, frozen=True):
    """Rules for the volumes of a driver."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: list[str] | None = None
    fs_group_policy: str | None = None
    token_requests: list[TokenRequest] | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    node_allocatable_update_period_seconds: int | None = None
    service_account_token_in_secrets: bool | None = None


class DriverObjects:
    """Cached rules of drivers; every query waits until they have been listed once.

    A driver without an object has default rules, and supports no inline volumes.

    :param api: ``None`` in standalone mode, where no objects exist.
    """

    name = "CSI drivers"

    def __init__(self, api: Api | None, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._specs: dict[str, DriverSpec] = {}
        self._synced = asyncio.Event()
        if api is None:
            self._synced.set()
        self.changed: Callable[[], None] = lambda: None
        """Called after each change."""

    async def find(self, driver: str) -> DriverSpec | None:
        """Return the rules of a driver, or ``None`` without an object.

        :raises TransientVolumeError: the objects cannot be listed.
        """
        if not self._synced.is_set():
            try:
                async with asyncio.timeout(_SYNC_SECONDS):
                    await self._synced.wait()
            except TimeoutError:
                raise TransientVolumeError(f"{PREFIX}CSIDriver objects have not been listed yet") from None
        return self._specs.get(driver)

    def cached(self, driver: str) -> DriverSpec | None:
        """Return the rules of a driver if they have been listed."""
        return self._specs.get(driver)

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        if self._api is None:
            await asyncio.Event().wait()
            return
        await follow(self._api, CSI_DRIVERS, "", clock=self._clock, listed=self._replace, changed=self._change)

    def _replace(self, objects: list[dict[str, Any]]) -> None:
        self._specs = {}
        for each in objects:
            self._store(each)
        self._synced.set()
        self.changed()

    def _change(self, event: WatchEvent[dict[str, Any]]) -> None:
        if event.type is WatchType.DELETED:
            self._specs.pop(_name(event.object), None)
        else:
            self._store(event.object)
        self.changed()

    def _store(self, obj: dict[str, Any]) -> None:
        try:
            self._specs[_name(obj)] = msgspec.convert(obj.get("spec") or {}, DriverSpec)
        except msgspec.ValidationError as error:
            _log.error("Failed to decode CSIDriver", extra={"driver": _name(obj), "err": str(error)})


def attach_required(spec: DriverSpec | None) -> bool:
    """Return whether volumes of a driver with these rules are attached by a controller."""
    return spec is None or spec.attach_required is not False


def fs_group_policy(spec: DriverSpec | None) -> str:
    """Return the policy for ``fsGroup``.

    :raises TransientVolumeError: the object has none.
    """
    if spec is None:
        return FS_GROUP_BY_TYPE
    if not spec.fs_group_policy:
        raise TransientVolumeError(
            f"{PREFIX}mounter.SetupAt failed to check fsGroup policy: "
            f"{PREFIX}expected valid fsGroupPolicy, received nil value or empty string"
        )
    return spec.fs_group_policy


def check_lifecycle(spec: DriverSpec | None, driver: str, mode: str) -> None:
    """Check that a driver supports volumes of a lifecycle mode.

    :raises TransientVolumeError: it does not.
    """
    attempt = f"{PREFIX}mounter.SetupAt failed to check volume lifecycle mode: "
    if spec is None:
        if mode != "Persistent":
            raise TransientVolumeError(
                f'{attempt}volume mode "{mode}" not supported by driver {driver} (no CSIDriver object)'
            )
        return
    modes = spec.volume_lifecycle_modes or ["Persistent"]
    if mode not in modes:
        listed = " ".join(f'"{each}"' for each in modes)
        raise TransientVolumeError(
            f'{attempt}volume mode "{mode}" not supported by driver {driver} (only supports [{listed}])'
        )


def _name(obj: dict[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("name", ""))
