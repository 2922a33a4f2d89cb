"""Node events and metrics about plugins that fail or block the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nodeagent.base.metrics import Counter, SampledGauge
from nodeagent.contracts.context import RecorderContext
from nodeagent.contracts.events import EventType
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import Decision, PluginManager, Quarantine
from nodeagent.stall_detector import Stall

_STALLS = Counter(
    "nodeagent_event_loop_stalls_total",
    "Number of times that the event loop was blocked.",
    ("plugin", "hook"),
    prefixed=False,
)
_STALLED = Counter(
    "nodeagent_event_loop_stalled_seconds_total",
    "Total time in seconds for which the event loop was blocked.",
    ("plugin", "hook"),
    prefixed=False,
)
_QUARANTINED = SampledGauge(
    "nodeagent_plugin_quarantined",
    "1 while the hooks of the plugin are skipped because it failed repeatedly, otherwise 0.",
    ("plugin",),
    prefixed=False,
)
_DECISION_EVENTS: Mapping[str, tuple[EventType, str]] = {
    "nodeagent_permit_pod": (EventType.WARNING, "PluginBlockedPod"),
    "nodeagent_permit_eviction": (EventType.NORMAL, "PluginVetoedEviction"),
    "nodeagent_mutate_sandbox": (EventType.NORMAL, "PluginChangedPod"),
    "nodeagent_mutate_container": (EventType.NORMAL, "PluginChangedPod"),
}


class PluginEvents:
    """Records an event of the node when a plugin enters or leaves quarantine, and after each stall.

    :param context: returns the stage with the event recorder once it exists.
    """

    def __init__(self, plugins: PluginManager, context: Callable[[], RecorderContext]) -> None:
        self._plugins, self._context = plugins, context
        plugins.calls.on_quarantine = self._quarantine_changed
        plugins.on_decision = self._decided
        plugins.on_skip = self._skipped
        _QUARANTINED.sample = self._sample

    def stall_ended(self, stall: Stall) -> None:
        """Record a stall; a stall in a plugin counts as a failure of the plugin."""
        _STALLS.inc(stall.plugin, stall.hook)
        _STALLED.inc(stall.plugin, stall.hook, by=stall.seconds)
        where = f"{f'plugin {stall.plugin}' if stall.plugin else 'the agent'}{f', {stall.hook}' if stall.hook else ''}"
        text = f"The event loop was blocked for {stall.seconds:.1f} s by {where} in {stall.location}"
        self._record(EventType.WARNING, "EventLoopBlocked", text)
        if stall.plugin and not stall.interrupted:  # An interrupted call has failed.
            self._plugins.record_failure(
                stall.plugin, f"blocked the event loop for {stall.seconds:.1f} s in {stall.location}"
            )

    def _decided(self, decision: Decision, pod: Pod) -> None:
        """Record a decision that changes the outcome of a pod; admission records the rejection itself."""
        if decision.hook not in _DECISION_EVENTS:
            return
        type, reason = _DECISION_EVENTS[decision.hook]
        note = f"Plugin {decision.plugin}: {decision.verdict}"  # wording: ok
        self._context().recorder.record(pod.reference(), type, reason, note)

    def _skipped(self, plugin: str, hook: str, pod: Pod) -> None:
        text = f"Plugin {plugin} did not decide about this pod ({hook}): it failed repeatedly and is quarantined"
        self._context().recorder.record(pod.reference(), EventType.WARNING, "PluginSkipped", text)

    def _quarantine_changed(self, plugin: str, state: Quarantine) -> None:
        if state.until is None:
            text = f"Plugin {plugin} responds again, its hooks are called"
            self._record(EventType.NORMAL, "PluginRecovered", text)
            return
        effect = "its pods wait" if self._plugins.is_required(plugin) else "its hooks are skipped"
        text = f"Plugin {plugin} failed repeatedly, {effect} for {state.seconds:g} s: {state.last_error}"
        self._record(EventType.WARNING, "PluginQuarantined", text)

    def _record(self, type: EventType, reason: str, note: str) -> None:
        context = self._context()
        context.recorder.record(context.node_reference(), type, reason, note)

    def _sample(self) -> Mapping[tuple[str, ...], float]:
        now = time.monotonic()
        return {(name,): 0.0 if state.allows(now) else 1.0 for name, state in self._plugins.calls.quarantines.items()}
