"""Repair of the state that CNI keeps on disk, which a loss of power or a full disk tears."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.checks import NodeCheck
from nodeagent.contracts.context import AgentContext, ImageContext

if TYPE_CHECKING:
    from nodeagent_plugins.cni_state.repair import CniRepair

NAME = "cni_state"
CACHE = "/var/lib/cni"
ADDRESSES = "/var/lib/cni/networks"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    def directory(default: str, description: str) -> dict[str, Any]:
        return {"type": "string", "pattern": "^/", "default": default, "description": description}

    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "enabled": {"type": "boolean", "default": True, "description": "Remove torn files of CNI."},
            "cache_dir": directory(CACHE, "Directory of libcni."),
            "address_dir": directory(ADDRESSES, "Field dataDir of the CNI plugin host-local."),
        },
    }


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    enabled = context.plugin_settings.get(NAME, {}).get("enabled", True)
    return [_repair(context)] if enabled else []


@hookimpl
def nodeagent_provide_node_checks(context: ImageContext) -> Sequence[NodeCheck]:
    return [NodeCheck("CNI state", _repair(context).check)]


def _repair(context: ImageContext) -> CniRepair:
    from nodeagent_plugins.cni_state.repair import CniRepair
    from nodeagent_plugins.cni_state.torn_files import TornFiles

    settings = context.plugin_settings.get(NAME, {})
    files = TornFiles(Path(settings.get("cache_dir", CACHE)), Path(settings.get("address_dir", ADDRESSES)))
    return CniRepair(files, context.clock)
