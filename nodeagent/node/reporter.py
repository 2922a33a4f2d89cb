"""Node status reporter: compute the node status periodically and send changes to the API server."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from nodeagent.base.aio import Backoff
from nodeagent.base.aio.waker import Waker
from nodeagent.base.logging import v_level
from nodeagent.contracts.api import NODES, Api
from nodeagent.contracts.context import RecorderContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.node import NodeReport
from nodeagent.errors import ApiError, RuntimeFailure
from nodeagent.model.meta import wire_time
from nodeagent.model.node import NodeCondition, NodeStatus
from nodeagent.model.wire import to_wire
from nodeagent.node.condition_events import event_reasons
from nodeagent.node.metadata_reporter import NodeMetadataReporter
from nodeagent.node.startup import NodeStartup
from nodeagent.node.status import READY, compute_status, conditions_of
from nodeagent.node.status_inputs import StatusInputCollector
from nodeagent.node.status_patch import StoredDifferently, altered_fields, status_patch
from nodeagent.node.watcher import NodeWatcher
from nodeagent.pluginmanager import PluginManager

_JITTER = 0.04
_FAST_SECONDS = 120.0
"""Time after startup during which the status of a NotReady node is computed more often."""

_log = logging.getLogger(__name__)


class NodeStatusReporter:
    """Computes the status every ``nodeStatusUpdateFrequency`` and sends it if it has changed.

    An unchanged status is sent every ``nodeStatusReportFrequency``. Without an API server, it is only computed.
    spec: config.nodeStatusUpdateFrequency, config.nodeStatusReportFrequency

    :param watcher: the watched node object; ``None`` in standalone mode.
    :param api: returns a client without a rate limit, because heartbeats must not wait for other requests.
    """

    def __init__(
        self,
        context: RecorderContext,
        plugins: PluginManager,
        collector: StatusInputCollector,
        watcher: NodeWatcher | None,
        api: Callable[[], Api | None],
        startup: NodeStartup,
    ) -> None:
        self._context, self._plugins, self._collector, self._watcher = context, plugins, collector, watcher
        self._api, self._clock, self._startup = api, context.clock, startup
        self._metadata = NodeMetadataReporter(context.node_name, api)
        self._waker = Waker(context.clock)
        self._period = context.config.node_status_update_frequency.seconds
        self._report_period = context.config.node_status_report_frequency.seconds
        self._reported_at: float | None = None
        self._failing = False
        self._altered: Mapping[str, StoredDifferently] = {}
        self._condition_statuses: dict[str, str] | None = None
        self._unschedulable: bool | None = None
        self._boot_checked = False
        self._pod_cidr = ""
        self.computed = asyncio.Event()
        self.reports: Mapping[str, NodeReport] = {}
        """The last reports of plugins."""
        self.status: NodeStatus | None = None
        self.problem = ""
        """The error of the last report; empty on success."""

    @property
    def ready(self) -> bool:
        """True if the node was Ready at the last computation."""
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
            await self._update()
            if not self.ready and self._clock.now() - started < _FAST_SECONDS:
                await self._waker.wait(min(fast.next(), self._period))
            else:
                await self._waker.wait(self._period * (1 + _JITTER * random.random()))  # noqa: S311  spreads load

    async def _update(self) -> None:
        node = self._watcher.node if self._watcher is not None else None
        reported: Mapping[str, Any] = (node or {}).get("status") or {}
        inputs = await self._collector.collect(reported)
        own = {condition.type: condition for condition in self.status.conditions} if self.status else {}
        server = conditions_of(node)
        self.reports = inputs.reports
        self.status = status = compute_status(inputs, (server, own), wire_time(self._clock.wall()))
        await self._record_changes(status, server)
        self.computed.set()
        if node is not None:
            self._record_node_changes(node, inputs.info.boot_id)
        await self._set_pod_cidr(node)
        if self._watcher is not None and self._watcher.node is not None:
            await self._report(status, self._watcher, runtime_known=inputs.runtime is not None)
            await self._metadata.report(self._watcher, inputs.reports, inputs.reporting)

    async def _report(self, status: NodeStatus, watcher: NodeWatcher, *, runtime_known: bool) -> None:
        now = self._clock.now()
        due = self._reported_at is None or now - self._reported_at >= self._report_period
        reported = (watcher.node or {}).get("status") or {}
        patch = status_patch(status, reported, heartbeat=due, runtime_known=runtime_known, altered=self._altered)
        api = self._api()
        if not patch or api is None:
            return
        name = self._context.node_name
        try:
            async with asyncio.timeout(max(self._period, 1.0)):
                watcher.node = await api.patch(NODES, name, patch, subresource="status")
        except (ApiError, TimeoutError) as error:
            if not self._failing:
                _log.error(
                    "Error updating node status, will retry", extra={"node": name, "err": str(error) or "timeout"}
                )
            self._failing, self.problem = True, str(error) or "timeout"
            return
        sent_later = altered_fields(patch, (watcher.node or {}).get("status") or {})
        self._altered = sent_later if due else {**self._altered, **sent_later}
        if self._failing:
            _log.info("Node status updates recovered", extra={"node": name})
        self._failing, self.problem, self._reported_at = False, "", now
        if self.ready:
            self._startup.reported_ready()

    # --- events -------------------------------------------------------------------------------------------

    async def _record_changes(self, status: NodeStatus, server: Mapping[str, NodeCondition]) -> None:
        """Record events for changed conditions, and notify plugins of a change of Ready."""
        first = self._condition_statuses is None
        before = (
            {kind: c.status for kind, c in server.items()}
            if self._condition_statuses is None
            else self._condition_statuses
        )
        for reason in event_reasons(before, status.conditions):
            self._record(reason)
        self._condition_statuses = self._statuses(status)
        if first or before.get(READY) != self._condition_statuses.get(READY):
            condition = next(c for c in status.conditions if c.type == READY)
            message = condition.message
            if self.ready and first:
                _log.info("Fast updating node status as it just became ready")
            if not self.ready and not first:
                fields = {"node": self._context.node_name, "condition": to_wire(condition)}
                _log.info("Node became not ready", extra=fields)
            await self._plugins.notify("nodeagent_node_ready_changed", ready=self.ready, message=message)

    def _record_node_changes(self, node: Mapping[str, Any], boot_id: str) -> None:
        """Record events for changes of the node object: reboot, cordon and uncordon."""
        unschedulable = bool((node.get("spec") or {}).get("unschedulable"))
        if self._unschedulable is not None and unschedulable != self._unschedulable:
            self._record("NodeNotSchedulable" if unschedulable else "NodeSchedulable")
        self._unschedulable = unschedulable
        reported_boot_id = ((node.get("status") or {}).get("nodeInfo") or {}).get("bootID", "")
        if not self._boot_checked and reported_boot_id and boot_id and reported_boot_id != boot_id:
            name = self._context.node_name
            note = f"Node {name} has been rebooted, boot id: {boot_id}"
            self._context.recorder.record(self._context.node_reference(), EventType.WARNING, "Rebooted", note)
        self._boot_checked = True

    async def _set_pod_cidr(self, node: Mapping[str, Any] | None) -> None:
        """Pass the pod CIDR to the runtime: that of the node object, or the configured one without an API server.

        spec: config.podCIDR
        """
        if self._watcher is None:
            pod_cidr = self._context.config.pod_cidr
        else:
            spec = (node or {}).get("spec") or {}
            pod_cidr = ",".join(spec.get("podCIDRs") or filter(None, [spec.get("podCIDR")]))
        if not pod_cidr or pod_cidr == self._pod_cidr:
            return
        try:
            await self._context.runtime.update_pod_cidr(pod_cidr)
        except RuntimeFailure as error:
            _log.error("Pod CIDR update failed", extra={"podCIDR": pod_cidr, "err": str(error)})
            return
        _log.info("Updating Pod CIDR", extra={"originalPodCIDR": self._pod_cidr, "newPodCIDR": pod_cidr})
        self._pod_cidr = pod_cidr

    def _record(self, reason: str) -> None:
        _log.log(
            v_level(2), "Recording event message for node", extra={"node": self._context.node_name, "event": reason}
        )
        note = f"Node {self._context.node_name} status is now: {reason}"
        self._context.recorder.record(self._context.node_reference(), EventType.NORMAL, reason, note)

    @staticmethod
    def _statuses(status: NodeStatus) -> dict[str, str]:
        return {condition.type: condition.status for condition in status.conditions}
