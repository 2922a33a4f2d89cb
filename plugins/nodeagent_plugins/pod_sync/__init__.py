"""Pod sync: bring the sandbox and containers of a pod to the desired state.

``actions`` computes the next steps and ``syncer`` executes them; each of the other modules covers one subject
(environment, DNS, hosts file, security, mounts, hooks, stopping, cleanup).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.contracts.context import ConfigContext, StatsContext
from nodeagent.contracts.pods import PodSyncer
from nodeagent_plugins.pod_sync.declared_features import DeclaredFeatures
from nodeagent_plugins.pod_sync.paths import DEFAULT_LOG_ROOT
from nodeagent_plugins.pod_sync.stopping import HookCaller
from nodeagent_plugins.pod_sync.subordinate_ids import read_subordinate_ids
from nodeagent_plugins.pod_sync.syncer import BundledPodSyncer

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

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
                "description": "Directory of the pod logs, with the subdirectories pods/ and containers/.",
            },
            "sandboxes_at_once": {
                "type": "integer",
                "minimum": 1,
                "description": "Maximum number of sandboxes and containers that are started in parallel, "
                "without starts that take longer than a second. Default: two per CPU, at least four.",
            },
        },
    }


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    plugins.register(DeclaredFeatures(context.gates), name="pod_sync.declared_features")


@hookimpl
def nodeagent_provide_pod_syncer(context: StatsContext, plugins: HookCaller) -> PodSyncer:
    settings = context.plugin_settings.get(NAME, {})
    return BundledPodSyncer(
        context,
        plugins,
        log_root=Path(settings.get("log_root", DEFAULT_LOG_ROOT)),
        sandboxes_at_once=settings.get("sandboxes_at_once"),
        subordinate_ids=read_subordinate_ids(),
    )
