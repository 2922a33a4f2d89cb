"""Plugin settings: load ``--plugin-config`` and validate it against the schemas of the plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.errors import ConfigError, Problem
from nodeagent.plugin_schemas import validate_in_subprocess
from nodeagent.pluginmanager import PluginManager


def load_plugin_settings(file: str, plugins: PluginManager) -> dict[str, dict[str, Any]]:
    """Return the settings by plugin name from *file*, YAML or JSON with ``plugins: {NAME: {…}}``; an empty path: none.

    :raises ConfigError: the file is invalid; contains all errors.
    """
    if not file:
        return {}
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError([Problem(file, "", None, f"cannot be read: {error.strerror}")]) from error
    try:
        document = yamlsafe.load(content)
    except yamlsafe.YamlError as error:
        raise ConfigError([Problem(file, "", None, str(error))]) from error
    if not isinstance(document, dict) or not isinstance(document.get("plugins"), dict):
        raise ConfigError([Problem(file, "plugins", None, "must be a map of plugin names to their settings")])
    problems = [
        Problem(file, key, None, "unknown field; only `plugins` is allowed") for key in document if key != "plugins"
    ]
    schemas = {a.plugin: a.value for a in plugins.provide_all("nodeagent_settings_schema")}
    installed = {info.name for info in plugins.plugins()}
    settings: dict[str, dict[str, Any]] = {}
    for name, specified in document["plugins"].items():
        if name not in schemas:
            rule = "accepts no settings" if name in installed else "plugin is not installed"
            problems.append(Problem(file, f"plugins.{name}", None, rule))
        else:
            settings[name] = specified
    try:
        mismatches = validate_in_subprocess(schemas, settings)
    except OSError as error:
        raise ConfigError([Problem(file, "plugins", None, f"cannot be checked: {error}")]) from error
    problems.extend(Problem(file, f"plugins.{each.plugin}{each.path}", None, each.message) for each in mismatches)
    if problems:
        raise ConfigError(problems)
    return settings
