"""Results of the check of plugin settings beyond their schema."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.structs import Struct


class SettingsProblem(Struct, frozen=True):
    """A violated rule in the settings of a plugin."""

    path: str
    """Path below the plugin's settings, such as ``rules[0].name``; empty for the settings themselves."""
    value: object
    """The invalid value; ``None`` if it must not be displayed."""
    rule: str
    """The violated rule, without a subject: ``must be an absolute path``."""


class DeclaredPlugin(Struct, frozen=True):
    """A plugin that another plugin registers under a separate name, as its settings specify."""

    name: str
    path: str
    """Path below the settings of the plugin that registers it."""


class SettingsCheck(Struct, frozen=True):
    """Result of the check of a plugin's settings."""

    problems: Sequence[SettingsProblem] = ()
    plugins: Sequence[DeclaredPlugin] = ()
    """Further plugins, which may then be listed in ``requiredPlugins``."""
