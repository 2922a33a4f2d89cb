"""Out-of-process plugins: executables or sockets that implement the protocol ``nodeagent.plugin.v1`` in any language.

Each plugin is registered under its name, so that its calls are limited, counted and quarantined like those of a plugin
that is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent_plugins.external_plugins.settings import NAME, SCHEMA, problems_of

if TYPE_CHECKING:
    from nodeagent.contracts.checks import NodeCheck
    from nodeagent.contracts.context import ConfigContext, ImageContext
    from nodeagent.contracts.hooks import PluginHost
    from nodeagent.contracts.plugin_checks import PluginCheck
    from nodeagent.contracts.settings_check import SettingsCheck


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return dict(SCHEMA)


@hookimpl
def nodeagent_check_settings(settings: Mapping[str, Mapping[str, Any]]) -> SettingsCheck | None:
    from nodeagent.contracts.settings_check import DeclaredPlugin, SettingsCheck

    if NAME not in settings:
        return None
    declared = [DeclaredPlugin(name, f"plugins.{name}") for name in settings[NAME].get("plugins", {})]
    return SettingsCheck(problems_of(settings[NAME], is_root=os.geteuid() == 0), declared)


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    settings = context.plugin_settings.get(NAME, {})
    if settings.get("plugins"):
        from nodeagent_plugins.external_plugins.registration import register_plugins

        register_plugins(settings, context, plugins)


@hookimpl
def nodeagent_provide_node_checks(context: ImageContext) -> Sequence[NodeCheck]:
    settings = context.plugin_settings.get(NAME, {})
    if not settings.get("plugins"):
        return ()
    from nodeagent_plugins.external_plugins.node_checks import node_check
    from nodeagent_plugins.external_plugins.registration import socket_directory, socket_of
    from nodeagent_plugins.external_plugins.settings import parse

    directory = socket_directory(settings, context.root_dir)
    return [
        node_check(plugin.name, socket_of(plugin, directory))
        for plugin in parse(settings)
        if "node_checks" in plugin.capabilities
    ]


@hookimpl
def nodeagent_provide_plugin_checks(plugins: PluginHost) -> Sequence[PluginCheck]:
    from nodeagent.contracts.plugin_checks import PluginCheck
    from nodeagent_plugins.external_plugins.check import FILE_NAME, check_project

    return (PluginCheck(FILE_NAME, partial(check_project, deadline_of=plugins.deadline_of)),)
