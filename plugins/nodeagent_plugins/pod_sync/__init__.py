"""Pod sync: sandboxes and containers of one pod after the other brought to their wanted state.

Read ``actions`` for what is decided, ``syncer`` for how it is carried out; the modules beside them each know one
subject (environment, DNS, hosts file, security, mounts, hooks, stopping, cleaning up).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeagent import hookimpl
from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.pods import PodSyncer
from nodeagent_plugins.pod_sync.paths import DEFAULT_LOG_ROOT
from nodeagent_plugins.pod_sync.stopping import Moments
from nodeagent_plugins.pod_sync.syncer import SANDBOXES_AT_ONCE, BundledPodSyncer

NAME = "pod_sync"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "log_root": {
                "type": "string",
                "default": DEFAULT_LOG_ROOT,
                "description": "Directory that holds the logs of pods, in pods/ and containers/.",
            },
            "sandboxes_at_once": {
                "type": "integer",
                "minimum": 1,
                "default": SANDBOXES_AT_ONCE,
                "description": "How many sandboxes are made at a time.",
            },
        },
    }


@hookimpl
def nodeagent_provide_pod_syncer(context: StatsContext, plugins: Moments) -> PodSyncer:
    settings = context.plugin_settings.get(NAME, {})
    return BundledPodSyncer(
        context,
        plugins,
        log_root=Path(settings.get("log_root", DEFAULT_LOG_ROOT)),
        sandboxes_at_once=settings.get("sandboxes_at_once", SANDBOXES_AT_ONCE),
    )
