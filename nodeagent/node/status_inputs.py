"""Collect the inputs of the node status."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import msgspec

from nodeagent.base.release import Release
from nodeagent.contracts.context import RecorderContext
from nodeagent.contracts.reservations import pod_capacity
from nodeagent.errors import ConfigError, RuntimeFailure
from nodeagent.model.node import ContainerImage, NodeAddress, NodeSwapStatus, NodeSystemInfo
from nodeagent.node.addresses import HOSTNAME, INTERNAL_IP, NodeAddresses
from nodeagent.node.allocatable import check_reservations, compute_allocatable
from nodeagent.node.machine import Machine, online_cpus, read_machine, swap_capacity_bytes
from nodeagent.node.runtime_health import RuntimeHealth
from nodeagent.node.runtime_version import reported_version
from nodeagent.node.status import NodeStatusInputs, merge_reports, missing_capacity, report_images
from nodeagent.pluginmanager import PluginManager

_HOOK = "nodeagent_report_node"
_log = logging.getLogger(__name__)
_APPARMOR_STABLE = Release(1, 31)
"""First release whose node status does not mention AppArmor."""
_IMAGES_SECONDS = 30.0
"""Time for which a list of images is reported."""


class StatusInputCollector:
    """Queries the host, the runtime and plugins; if one does not respond, its last result is used.

    :param problems: returns the reasons of core components for a NotReady node.
    """

    def __init__(
        self,
        context: RecorderContext,
        plugins: PluginManager,
        health: RuntimeHealth,
        problems: Callable[[], Sequence[str]],
    ) -> None:
        self._context, self._plugins, self._health, self._problems = context, plugins, health, problems
        settings = context.settings
        self._external = settings.cloud_provider == "external"
        self._addresses = NodeAddresses(settings.node_name, settings.node_ips, context.clock)
        self._machine: Machine | None = None
        self._images: Sequence[ContainerImage] = ()
        self._images_due = float("-inf")

    async def machine(self) -> Machine:
        """Return the description of the host, which is read once."""
        if self._machine is None:
            self._machine = await asyncio.to_thread(read_machine)
        return self._machine

    async def check_reservations(self) -> None:
        """Validate the configured reservations against the node's capacity.

        :raises ConfigError: the reservations exceed the capacity.
        """
        report = merge_reports(result.value for result in await self._plugins.gather(_HOOK))
        online = await asyncio.to_thread(online_cpus)
        if problems := check_reservations(report.capacity, self._context.config, online):
            raise ConfigError(problems)

    async def collect(self, reported: Mapping[str, Any]) -> NodeStatusInputs:
        """Return the current inputs.

        :param reported: the node status in the API.
        """
        config = self._context.config
        results = await self._plugins.gather(_HOOK)
        report = merge_reports(result.value for result in results)
        machine = await self.machine()
        capacity = {"pods": str(pod_capacity(config, os.cpu_count() or 1)), **report.capacity}
        return NodeStatusInputs(
            info=self._info(machine, await asyncio.to_thread(swap_capacity_bytes)),
            addresses=await self._find_addresses(reported),
            capacity=capacity,
            allocatable=compute_allocatable(capacity, config) | dict(report.allocatable),
            images=await self._list_images(),
            conditions=report.conditions,
            problems=[
                *self._health.problems,
                *self._problems(),
                *report.not_ready,
                *missing_capacity(capacity, isolation=config.local_storage_capacity_isolation),
            ],
            remarks=self._remarks(machine),
            port=config.port if config.enable_server else 0,
            runtime=self._health.last_status,
            declared_features=report.declared_features,
            volumes_in_use=report.volumes_in_use,
            reports={result.plugin: result.value for result in results},
            reporting=[info.name for info in self._plugins.plugins() if _HOOK in info.hooks],
        )

    def _info(self, machine: Machine, swap_bytes: int) -> NodeSystemInfo:
        runtime, version, gates = self._health.version, self._context.release.node_version, self._context.gates
        return NodeSystemInfo(
            machine_id=machine.machine_id,
            system_uuid=machine.system_uuid,
            boot_id=machine.boot_id,
            kernel_version=machine.kernel,
            os_image=machine.os_image,
            container_runtime_version=f"{runtime.name}://{reported_version(runtime.version)}" if runtime else "",
            agent_version=version,
            proxy_version="" if gates.enabled("DisableNodePlatformProxyVersion") else version,
            architecture=machine.architecture,
            swap=NodeSwapStatus(capacity=swap_bytes) if swap_bytes else msgspec.UNSET,
        )

    async def _find_addresses(self, reported: Mapping[str, Any]) -> list[NodeAddress] | None:
        """Return the addresses; ``None`` if an external cloud provider has set them."""
        if not self._external:
            return await self._addresses.current()
        if reported.get("addresses"):
            return None
        settings = self._context.settings
        configured = [text for text in settings.node_ips if not ip_address(text).is_unspecified]
        return [
            *(NodeAddress(type=INTERNAL_IP, address=text) for text in configured),
            NodeAddress(type=HOSTNAME, address=settings.node_name),
        ]

    def _remarks(self, machine: Machine) -> list[str]:
        """Return the additions to the message of the Ready condition."""
        context = self._context
        reported = context.release.release < _APPARMOR_STABLE and context.gates.enabled("AppArmor")
        return ["AppArmor enabled"] if machine.apparmor and reported else []

    async def _list_images(self) -> Sequence[ContainerImage]:
        limit, now = self._context.config.node_status_max_images, self._context.clock.now()
        if limit == 0:
            return ()
        if now < self._images_due:
            return self._images
        try:
            self._images = report_images(await self._context.images.list_images(), limit)
            self._images_due = now + _IMAGES_SECONDS
        except RuntimeFailure as error:  # Reported in the condition Ready.
            _log.debug("Failed to list images", extra={"err": str(error)})
        return self._images
