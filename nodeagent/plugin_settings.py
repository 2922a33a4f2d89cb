"""Reads the settings of plugins (``--plugin-config``) and checks them against the schemas that plugins declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.errors import ConfigError, Problem
from nodeagent.plugin_schemas import check_apart
from nodeagent.pluginmanager import PluginManager


def load_plugin_settings(file: str, plugins: PluginManager) -> dict[str, dict[str, Any]]:
    """Return the settings by plugin name; *file* is ``plugins: {NAME: {…}}`` in YAML or JSON, or empty for none.

    :raises ConfigError: with every problem of the file.
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
        Problem(file, key, None, "is not known; only `plugins` may stand here") for key in document if key != "plugins"
    ]
    schemas = {a.plugin: a.value for a in plugins.provide_all("nodeagent_settings_schema")}
    installed = {info.name for info in plugins.plugins()}
    settings: dict[str, dict[str, Any]] = {}
    for name, given in document["plugins"].items():
        if name not in schemas:
            rule = "takes no settings" if name in installed else "is no installed plugin"
            problems.append(Problem(file, f"plugins.{name}", None, rule))
        else:
            settings[name] = given
    try:
        wrong = check_apart(schemas, settings)
    except OSError as error:
        raise ConfigError([Problem(file, "plugins", None, f"cannot be checked: {error}")]) from error
    problems.extend(Problem(file, f"plugins.{each.plugin}{each.path}", None, each.message) for each in wrong)
    if problems:
        raise ConfigError(problems)
    return settings
