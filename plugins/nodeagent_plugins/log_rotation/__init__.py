"""Log rotation: limit the size and number of each container's logs, and the total size of terminated pods' logs.

``containerLogMonitorInterval`` is the interval of the size checks, ``containerLogMaxWorkers`` the number of logs that
are rotated at the same time.
spec: config.containerLogMaxSize, config.containerLogMaxFiles
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent_plugins.log_rotation.budget import TerminatedPodLogs
from nodeagent_plugins.log_rotation.rotator import LogRotator

NAME = "log_rotation"
DEAD_POD_BUDGET = "1Gi"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "period_seconds": {
                "type": "number",
                "minimum": 1,
                "description": "Interval of the size checks; defaults to containerLogMonitorInterval.",
            },
            "dead_pod_budget": {
                "type": "string",
                "pattern": r"^[+-]?[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?$",
                "default": DEAD_POD_BUDGET,
                "description": "Maximum total size of the logs of terminated pods, a quantity; the logs of the pod "
                "that terminated first are removed first. Negative: unlimited.",
            },
        },
    }


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    settings = context.plugin_settings.get(NAME, {})
    loops: list[BackgroundLoop] = []
    largest = Quantity.parse(context.config.container_log_max_size).value()
    if largest >= 0:
        period = float(settings.get("period_seconds", context.config.container_log_monitor_interval.seconds))
        workers = context.config.container_log_max_workers
        loops.append(LogRotator(context, largest, context.config.container_log_max_files, period, workers))
    budget = Quantity.parse(settings.get("dead_pod_budget", DEAD_POD_BUDGET)).value()
    if budget >= 0:
        loops.append(TerminatedPodLogs(context, budget))
    return loops
