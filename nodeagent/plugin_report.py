"""Plugin report: states, call statistics and decisions of plugins, for ``nodeagent plugins list``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from nodeagent.base.aio import Clock
from nodeagent.contracts.diagnostics import PluginCostLine
from nodeagent.contracts.local import LocalQuery, NoArguments
from nodeagent.contracts.plugin_report import PLUGINS_QUERY, DecisionLine, HookLine, PluginLine, PluginsReport
from nodeagent.pluginmanager import Decision, HookStats, PluginInfo, PluginManager


class PluginReport:
    """Collects the state of the plugins on request."""

    def __init__(self, plugins: PluginManager, clock: Clock) -> None:
        self._plugins, self._clock = plugins, clock

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return the local queries."""
        return (LocalQuery(PLUGINS_QUERY, NoArguments, self.report),)

    async def report(self, _: NoArguments) -> PluginsReport:
        """Return the current state."""
        return PluginsReport(
            plugins=[self._plugin(info) for info in self._plugins.plugins()],
            decisions=[decision_line(each) for each in self._plugins.decisions],
        )

    def problems(self) -> Mapping[str, str]:
        """Return the problem of each plugin that fails, by ``plugin NAME``, for ``nodeagent status``."""
        now = self._clock.now()
        problems = {f"plugin {name}": f"fails in {hook}" for name, hook in self._plugins.calls.failing}
        problems |= {f"plugin {info.name}": info.state for info in self._plugins.plugins() if info.failed}
        for name, state in self._plugins.calls.quarantines.items():
            if state.until is not None and not state.allows(now):
                left = f"next attempt in {state.until - now:.0f} s"
                problems[f"plugin {name}"] = f"quarantined after repeated failures, {left}: {state.last_error}"
        return problems

    def costs(self) -> Sequence[PluginCostLine]:
        """Return the cost of loading each plugin, largest in memory first."""
        names = {info.plugin for info in self._plugins.plugins()}
        costs = {name: self._plugins.load_costs.of(name) for name in sorted(names)}
        lines = [
            PluginCostLine(name, round(cost.cpu_seconds, 4), cost.resident_bytes)
            for name, cost in costs.items()
            if cost.cpu_seconds
        ]
        return sorted(lines, key=lambda line: -line.memory_bytes)

    def _plugin(self, info: PluginInfo) -> PluginLine:
        state, since, until, error = info.state, None, None, ""
        quarantine = self._plugins.calls.quarantines.get(info.plugin)
        if state == "loaded":
            state = "ok"
            if quarantine is not None:
                error = quarantine.last_error
                since, until = self._wall(quarantine.failing_since), self._wall(quarantine.until)
                if not quarantine.allows(self._clock.now()):
                    state = "quarantined"
                elif since is not None:
                    state = "failing"
        return PluginLine(
            name=info.name,
            version=info.version,
            origin=info.origin,
            hooks=list(info.hooks),
            state=state,
            required=self._plugins.is_required(info.name),
            since=since,
            until=until,
            last_error=error,
            calls=[_hook(hook, stats) for hook, stats in sorted(info.stats.items())],
        )

    def _wall(self, monotonic: float | None) -> datetime | None:
        """Return the wall clock time of a monotonic time."""
        if monotonic is None:
            return None
        return self._clock.wall() + timedelta(seconds=monotonic - self._clock.now())


def _hook(hook: str, stats: HookStats) -> HookLine:
    return HookLine(
        hook=hook,
        calls=stats.calls,
        failures=stats.failures,
        abandoned=stats.abandoned,
        skipped=stats.skipped,
        p99_seconds=stats.quantile(0.99),
        cpu_seconds=round(stats.cpu_seconds, 6),
        longest_step_seconds=round(stats.longest_step_seconds, 6),
    )


def decision_line(decision: Decision) -> DecisionLine:
    """Return a decision as reported to commands."""
    at = datetime.fromtimestamp(decision.at, UTC)
    return DecisionLine(
        plugin=decision.plugin,
        hook=decision.hook,
        subject=decision.subject,
        verdict=decision.verdict,  # wording: ok
        at=at,
        last=datetime.fromtimestamp(decision.last_at, UTC),
        count=decision.count,
    )
