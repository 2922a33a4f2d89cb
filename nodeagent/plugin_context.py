"""The first stage of the plugin context, as the agent and the commands create it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.base.release import SelectedRelease
from nodeagent.config.effective import Effective
from nodeagent.contracts.api import ApiConnection
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext
from nodeagent.contracts.settings import NodeSettings


def new_context(
    config: NodeAgentConfiguration,
    gates: FeatureGates,
    settings: NodeSettings,
    *,
    clock: Clock,
    tasks: TaskOwner,
    cleanup: AsyncExitStack | None = None,
    plugin_settings: Mapping[str, Mapping[str, Any]] | None = None,
    release: SelectedRelease | None = None,
) -> ConfigContext:
    """Return the first stage of the context, without components.

    :param tasks: the owner of the tasks that plugins start; closed by the caller.
    :param cleanup: runs the callbacks of plugins on shutdown; closed by the caller.
    :param plugin_settings: validated settings by plugin name.
    :param release: the selected release; defaults to that of a standalone node.
    """

    def connect_api(kubeconfig: Path) -> ApiConnection:
        from nodeagent.apiclient import connect

        return connect(kubeconfig, config, clock)

    return ConfigContext(
        config=config,
        gates=gates,
        settings=settings,
        effective=Effective(config, settings, gates, release),
        connect_api=connect_api,
        clock=clock,
        release=release or SelectedRelease(),
        tasks=tasks,
        cleanup=cleanup or AsyncExitStack(),
        plugin_settings=plugin_settings or {},
    )
