"""Checks of projects whose plugins are not Python modules, which plugins of the agent provide."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nodeagent.authoring.findings import Finding, Rule
from nodeagent.contracts.plugin_checks import PluginCheck
from nodeagent.pluginmanager import PluginManager


def find_check(path: Path) -> PluginCheck | None:
    """Return the check for the project in the directory *path*; ``None`` if it is a Python plugin.

    :raises PluginError: a bundled plugin cannot be loaded.
    """
    if not path.is_dir():
        return None
    plugins = PluginManager()
    plugins.load_entry_points()
    results = plugins.provide_all("nodeagent_provide_plugin_checks", plugins=plugins)
    return next((check for result in results for check in result.value if (path / check.file_name).is_file()), None)


def run_check(check: PluginCheck, path: Path) -> list[Finding]:
    """Run the plugin of the project in *path* and return its problems."""
    file = path / check.file_name
    return [Finding(file, 1, Rule.OUT_OF_PROCESS, message) for message in asyncio.run(_run(check, path))]


async def _run(check: PluginCheck, path: Path) -> list[str]:
    return list(await check.run(path))
