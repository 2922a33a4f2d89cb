"""File of ``--plugin-config`` for the demo's agent: the settings of the demo, and those of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.demo.processes import DemoError


def plugin_config(logs: Path, file: Path | None) -> dict[str, Any]:
    """Return the contents of the file; the agent validates them.

    :param logs: directory for the logs of the pods.
    :param file: file of the user; its settings of the plugin ``pod_sync`` are extended by *logs*.
    :raises DemoError: *file* cannot be read, or is not a map with a map ``plugins``.
    """
    document: Any = {}
    if file is not None:
        try:
            document = yamlsafe.load(file.read_bytes()) or {}
        except (OSError, yamlsafe.YamlError) as error:
            raise DemoError(f"--plugin-config {file}: {error}") from error
    plugins = document.get("plugins") or {} if isinstance(document, dict) else None
    if not isinstance(plugins, dict):
        raise DemoError(f"--plugin-config {file}: plugins must be a map of plugin names to their settings")
    syncer = plugins.get("pod_sync") or {}
    if isinstance(syncer, dict):
        syncer = {**syncer, "log_root": str(logs)}
    return {**document, "plugins": {**plugins, "pod_sync": syncer}}
