"""Node manager: registration, status reporting and lease of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nodeagent.base.quantity import Quantity, parse_quantity
from nodeagent.contracts.api import Api
from nodeagent.contracts.context import RecorderContext
from nodeagent.contracts.runtime import RuntimeStatus
from nodeagent.model.meta import ObjectReference
from nodeagent.model.node import NodeStatus
from nodeagent.model.wire import to_wire
from nodeagent.node.addresses import INTERNAL_IP
from nodeagent.node.lease import NodeLease
from nodeagent.node.registration import Registration, initial_node
from nodeagent.node.reporter import NodeStatusReporter
from nodeagent.node.runtime_health import RuntimeHealth
from nodeagent.node.startup import NodeStartup
from nodeagent.node.status_inputs import StatusInputCollector
from nodeagent.node.watcher import NodeWatcher
from nodeagent.pluginmanager import PluginManager


class NodeManager:
    """Owns the loops of the node. Without an API server, the status is only computed.

    :param problems: returns the reasons of core components (PLEG, …) for a NotReady node.
    """

    def __init__(
        self, context: RecorderContext, plugins: PluginManager, problems: Callable[[], Sequence[str]] = lambda: ()
    ) -> None:
        self._context = context
        clock = context.clock
        self._health = RuntimeHealth(lambda: context.runtime, clock, self.wake)
        self._collector = StatusInputCollector(context, plugins, self._health, problems)
        self._watcher = None if context.api is None else NodeWatcher(context.api, context.node_name, clock)
        self._heartbeat: Api | None = None
        self._startup = NodeStartup(clock)
        self._reporter = NodeStatusReporter(
            context, plugins, self._collector, self._watcher, self._heartbeat_api, self._startup
        )
        self._architecture = ""

    async def run_status(self) -> None:
        """Check the runtime, watch the node object, and compute and report the status until cancelled.

        :raises ConfigError: the configured reservations exceed the capacity.
        """
        await self._collector.check_reservations()
        self._architecture = (await self._collector.machine()).architecture
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._health.run(), name="runtime health")
            if self._watcher is not None:
                loops.create_task(self._watcher.run(), name="node watch")
            loops.create_task(self._reporter.run(), name="node report")

    async def run_registration(self) -> None:
        """Register the node with its first status; return once it is registered.

        spec: config.registerNode
        """
        context, watcher = self._context, self._watcher
        if watcher is None or context.api is None or not context.config.register_node:
            return
        await self._reporter.computed.wait()
        reporter = self._reporter
        assert reporter.status is not None
        registration = Registration(context.api, context.config, context.settings, context.clock, self._startup)
        watcher.node = await registration.register(self._architecture, reporter.status, reporter.reports)
        self.wake()

    async def run_lease(self) -> None:
        """Renew the lease until cancelled; return immediately without an API server."""
        api = self._heartbeat_api()
        if api is None:
            return
        config, clock = self._context.config, self._context.clock
        duration = config.node_lease_duration_seconds
        await NodeLease(api, self._context.node_name, duration, clock, lambda: self.owner_reference().uid).run()

    async def wait_for_node(self) -> None:
        """Wait until the node object has been read once; return immediately without an API server."""
        if self._watcher is not None:
            await self._watcher.synced()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call *listener* after each change of the node object; never without an API server."""
        if self._watcher is not None:
            self._watcher.listeners.append(listener)

    def wake(self) -> None:
        """Compute the status again now."""
        self._reporter.wake()

    async def runtime_status(self) -> RuntimeStatus:
        """Return the runtime's last status; wait until it has responded once."""
        return await self._health.status()

    @property
    def node(self) -> Mapping[str, Any] | None:
        """The node object from the API, or if it is unknown, as this agent would register it."""
        if self._watcher is not None and self._watcher.node is not None:
            return self._watcher.node
        status = self._reporter.status
        if status is None:
            return None
        return initial_node(self._context.config, self._context.settings, self._architecture, status)

    @property
    def ready(self) -> bool:
        return self._reporter.ready

    @property
    def status(self) -> NodeStatus | None:
        """The last computed status."""
        return self._reporter.status

    @property
    def report_problem(self) -> str:
        """The error of the last status report; empty on success and without an API server."""
        return self._reporter.problem

    @property
    def runtime_version(self) -> str:
        """Name and version of the runtime; empty until known."""
        version = self._health.version
        return f"{version.name} {version.version}" if version is not None else ""

    def allocatable(self) -> dict[str, Quantity]:
        """Return the allocatable resources; empty before the first computation."""
        status = self._reporter.status
        return {name: parse_quantity(amount) for name, amount in status.allocatable.items()} if status else {}

    def owner_reference(self) -> ObjectReference:
        """Return a reference to the node; its UID is empty until it is registered."""
        node = self._watcher.node if self._watcher is not None else None
        uid = ((node or {}).get("metadata") or {}).get("uid", "")
        return ObjectReference(api_version="v1", kind="Node", name=self._context.node_name, uid=uid)

    @property
    def host_ips(self) -> list[str]:
        """The node's IP addresses, one per IP family, as reported to pods."""
        status = self._reporter.status
        addresses: Any = to_wire(status.addresses) if status is not None else None
        if addresses is None and self._watcher is not None:  # Set by an external cloud provider.
            addresses = ((self._watcher.node or {}).get("status") or {}).get("addresses")
        found = [address["address"] for address in addresses or () if address["type"] == INTERNAL_IP]
        families = {":" in ip: ip for ip in reversed(found)}
        return [ip for ip in found if families[":" in ip] == ip]

    @property
    def runtime_name(self) -> str:
        """The prefix of container IDs."""
        return self._health.version.name if self._health.version else "containerd"

    @property
    def network_problem(self) -> str:
        """The reason why the pod network is not ready; empty if it is."""
        return self._health.network_problem

    def _heartbeat_api(self) -> Api | None:
        if self._heartbeat is None and self._context.new_api is not None:
            config = self._context.config
            # The deadline must leave time for another attempt after a connection has silently failed.
            limit = min(config.node_status_update_frequency.seconds, config.node_lease_duration_seconds)
            self._heartbeat = self._context.new_api(0, 0, deadline_seconds=max(limit, 1.0))
        return self._heartbeat or self._context.api
