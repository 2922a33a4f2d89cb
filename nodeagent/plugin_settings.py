"""Plugin configuration: load ``--plugin-config`` and validate the settings against the schemas of the plugins."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import field

from nodeagent.base import yamlsafe
from nodeagent.base.structs import Struct
from nodeagent.errors import ConfigError, Problem
from nodeagent.plugin_containment import FIELDS, Containment, parse_containment
from nodeagent.plugin_schemas import validate_in_subprocess
from nodeagent.pluginmanager import PluginManager


class PluginConfig(Struct, frozen=True):
    """Contents of ``--plugin-config``."""

    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Validated settings by plugin name."""
    containment: Containment = field(default_factory=Containment)
    declared: frozenset[str] = frozenset()
    """Plugins that others register as their settings specify."""
    document: dict[str, Any] = field(default_factory=lambda: {"plugins": {}})
    """The validated contents, to store them."""


def load_plugins(file: str, disabled: Iterable[str]) -> tuple[PluginManager, PluginConfig]:
    """Load the plugins, and their settings and limits from *file*, with all checks that do not require a start.

    :param disabled: plugins that are not loaded.
    :raises ConfigError: the file is invalid; contains all errors.
    :raises PluginError: a plugin that the agent requires cannot be loaded.
    """
    plugins = PluginManager()
    plugins.load_entry_points(disabled)
    config = load_plugin_config(file, plugins)
    plugins.contain(config.containment.quarantine, config.containment.required, config.declared)
    return plugins, config


def load_plugin_config(file: str, plugins: PluginManager) -> PluginConfig:
    """Return the contents of *file*, YAML or JSON; the defaults for an empty path.

    :raises ConfigError: the file is invalid; contains all errors.
    """
    if not file:
        return PluginConfig()
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise ConfigError([Problem(file, "", None, f"cannot be read: {error.strerror}")]) from error
    try:
        document = yamlsafe.load(content)
    except yamlsafe.YamlError as error:
        raise ConfigError([Problem(file, "", None, str(error))]) from error
    if not isinstance(document, dict) or not isinstance(document.get("plugins", {}), dict):
        raise ConfigError([Problem(file, "plugins", None, "must be a map of plugin names to their settings")])
    allowed = ("plugins", *FIELDS)
    problems = [
        Problem(file, key, None, f"unknown field; allowed are {', '.join(allowed)}")
        for key in document
        if key not in allowed
    ]
    schemas = {a.plugin: a.value for a in plugins.provide_all("nodeagent_settings_schema")}
    installed = {info.name for info in plugins.plugins()}
    failed = {info.name for info in plugins.plugins() if info.failed}
    settings: dict[str, dict[str, Any]] = {}
    for name, specified in document.get("plugins", {}).items():
        if name in failed:
            continue  # Its schema is unknown.
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
    declared = set() if mismatches else _check(settings, plugins, file, problems)
    containment = parse_containment(document, {*installed, *declared}, file, problems)
    if problems:
        raise ConfigError(problems)
    return PluginConfig(settings, containment, frozenset(declared), document)


def _check(settings: dict[str, dict[str, Any]], plugins: PluginManager, file: str, problems: list[Problem]) -> set[str]:
    """Append the problems that plugins find in their settings; return the names of the plugins that they declare."""
    names = {info.name for info in plugins.plugins()}
    declared: set[str] = set()
    for result in plugins.provide_all("nodeagent_check_settings", settings=settings):
        prefix = f"plugins.{result.plugin}"
        for problem in result.value.problems:
            problems.append(Problem(file, _joined(prefix, problem.path), problem.value, problem.rule))
        for plugin in result.value.plugins:
            if plugin.name in names | declared:
                rule = f"has the name of another plugin, {plugin.name}"
                problems.append(Problem(file, _joined(prefix, plugin.path), None, rule))
            declared.add(plugin.name)
    return declared


def _joined(prefix: str, path: str) -> str:
    return f"{prefix}.{path}" if path else prefix
