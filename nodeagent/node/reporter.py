"""Computes the node's status again and again, and tells the API server when there is something to tell."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from nodeagent.base.aio import Backoff
from nodeagent.base.aio.waker import Waker
from nodeagent.contracts.api import NODES, Api
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.errors import ApiError, RuntimeFailure
from nodeagent.model.meta import wire_time
from nodeagent.model.node import NodeCondition, NodeStatus
from nodeagent.node.changes import event_reasons
from nodeagent.node.collect import Collector
from nodeagent.node.startup import NodeStartup
from nodeagent.node.status import READY, compute_status, conditions_of, status_patch
from nodeagent.node.watcher import NodeWatcher
from nodeagent.pluginmanager import PluginManager

_JITTER = 0.04
_FAST_SECONDS = 120.0
"""How long a node that is not ready yet is looked at more often."""

_log = logging.getLogger(__name__)


class StatusReporter:
    """Computes the status each ``nodeStatusUpdateFrequency`` and sends it when it changed, or at the latest each
    ``nodeStatusReportFrequency``; without an API server it is only computed.

    spec: config.nodeStatusUpdateFrequency, config.nodeStatusReportFrequency

    :param watcher: the node as the server has it; ``None`` in standalone mode.
    :param api: returns a client without rate limit; a heartbeat must not wait behind other requests.
    """

    def __init__(
        self,
        context: AgentContext,
        plugins: PluginManager,
        collector: Collector,
        watcher: NodeWatcher | None,
        api: Callable[[], Api | None],
        startup: NodeStartup,
    ) -> None:
        self._context, self._plugins, self._collector, self._watcher = context, plugins, collector, watcher
        self._api, self._clock, self._startup = api, context.clock, startup
        self._waker = Waker(context.clock)
        self._period = context.config.node_status_update_frequency.seconds
        self._report_period = context.config.node_status_report_frequency.seconds
        self._reported_at: float | None = None
        self._failing = False
        self._known: dict[str, str] | None = None
        self._unschedulable: bool | None = None
        self._boot_checked = False
        self._pod_cidr = ""
        self.computed = asyncio.Event()
        self.status: NodeStatus | None = None
        self.problem = ""
        """Why the API server was not told last; empty when it was."""

    @property
    def ready(self) -> bool:
        """Whether the node was Ready when last computed."""
        return self.status is not None and self._statuses(self.status).get(READY) == "True"

    def wake(self) -> None:
        """Compute again now."""
        self._waker.wake()

    async def run(self) -> None:
        """Compute and report until cancelled."""
        if self._watcher is not None:
            await self._watcher.synced(1.0)
        started, fast = self._clock.now(), Backoff(0.1, 1.0, jitter=0)
        while True:
            await self._round()
            if not self.ready and self._clock.now() - started < _FAST_SECONDS:
                await self._waker.wait(min(fast.next(), self._period))
            else:
                await self._waker.wait(self._period * (1 + _JITTER * random.random()))  # noqa: S311  spreads load

    async def _round(self) -> None:
        node = self._watcher.node if self._watcher is not None else None
        shown: Mapping[str, Any] = (node or {}).get("status") or {}
        findings = await self._collector.collect(shown)
        own = {condition.type: condition for condition in self.status.conditions} if self.status else {}
        server = conditions_of(node)
        self.status = status = compute_status(findings, (server, own), wire_time(self._clock.wall()))
        await self._tell_changes(status, server)
        self.computed.set()
        if node is not None:
            self._look_at(node, findings.info.boot_id)
        await self._set_pod_cidr(node)
        if self._watcher is not None and self._watcher.node is not None:
            await self._report(status, self._watcher)

    async def _report(self, status: NodeStatus, watcher: NodeWatcher) -> None:
        now = self._clock.now()
        due = self._reported_at is None or now - self._reported_at >= self._report_period
        patch = status_patch(status, (watcher.node or {}).get("status") or {}, heartbeat=due)
        api = self._api()
        if not patch or api is None:
            return
        name = self._context.node_name
        try:
            async with asyncio.timeout(max(self._period, 1.0)):
                watcher.node = await api.patch(NODES, name, patch, subresource="status")
        except (ApiError, TimeoutError) as error:
            if not self._failing:
                _log.error("Cannot report the node's status", extra={"err": str(error) or "no answer in time"})
            self._failing, self.problem = True, str(error) or "no answer in time"
            return
        if self._failing:
            _log.info("Reporting the node's status again", extra={"node": name})
        self._failing, self.problem, self._reported_at = False, "", now
        if self.ready:
            self._startup.told_ready()

    # --- what others learn --------------------------------------------------------------------------------

    async def _tell_changes(self, status: NodeStatus, server: Mapping[str, NodeCondition]) -> None:
        """Record events about conditions that changed and announce a change of Ready."""
        first = self._known is None
        before = {kind: c.status for kind, c in server.items()} if self._known is None else self._known
        for reason in event_reasons(before, status.conditions):
            self._record(reason)
        self._known = self._statuses(status)
        if first or before.get(READY) != self._known.get(READY):
            message = next(c.message for c in status.conditions if c.type == READY)
            await self._plugins.notify("nodeagent_node_ready_changed", ready=self.ready, message=message)

    def _look_at(self, node: Mapping[str, Any], boot_id: str) -> None:
        """Record what the server's object tells: a reboot since the last run, cordoning and its end."""
        unschedulable = bool((node.get("spec") or {}).get("unschedulable"))
        if self._unschedulable is not None and unschedulable != self._unschedulable:
            self._record("NodeNotSchedulable" if unschedulable else "NodeSchedulable")
        self._unschedulable = unschedulable
        shown = ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", "")
        if not self._boot_checked and shown and boot_id and shown != boot_id:
            name = self._context.node_name
            note = f"Node {name} has been rebooted, boot id: {boot_id}"
            self._context.recorder.record(self._context.node_reference(), EventType.WARNING, "Rebooted", note)
        self._boot_checked = True

    async def _set_pod_cidr(self, node: Mapping[str, Any] | None) -> None:
        """Tell the runtime the range of pod addresses: the node's own one, or without an API server the configured one.

        spec: config.podCIDR
        """
        if self._watcher is None:
            wanted = self._context.config.pod_cidr
        else:
            spec = (node or {}).get("spec") or {}
            wanted = ",".join(spec.get("podCIDRs") or filter(None, [spec.get("podCIDR")]))
        if not wanted or wanted == self._pod_cidr:
            return
        try:
            await self._context.runtime.update_pod_cidr(wanted)
        except RuntimeFailure as error:
            _log.warning("Runtime did not take the pod CIDR", extra={"podCIDR": wanted, "err": str(error)})
            return
        self._pod_cidr = wanted
        _log.info("Runtime has the pod CIDR", extra={"podCIDR": wanted})

    def _record(self, reason: str) -> None:
        note = f"Node {self._context.node_name} status is now: {reason}"
        self._context.recorder.record(self._context.node_reference(), EventType.NORMAL, reason, note)

    @staticmethod
    def _statuses(status: NodeStatus) -> dict[str, str]:
        return {condition.type: condition.status for condition in status.conditions}
