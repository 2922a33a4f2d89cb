"""Findings of ``nodeagent plugins check`` and their rules."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from nodeagent.base.structs import Struct


class Rule(StrEnum):
    """Rule of a finding, as printed and as used in a trailing ``# nodeagent: ignore[RULE]``."""

    ENTRY_POINT = "entry-point"
    """There is no entry point in the group ``nodeagent``, or its object does not exist."""
    SYNTAX = "syntax"
    """A file is not valid Python."""
    UNKNOWN_HOOK = "unknown-hook"
    """The hook does not exist."""
    NO_HOOKS = "no-hooks"
    """No function is marked with ``@hookimpl``."""
    UNMARKED_HOOK = "unmarked-hook"
    """A function is named like a hook, but not marked with ``@hookimpl``."""
    HOOK_OPTION = "hook-option"
    """An option of ``@hookimpl`` is not supported."""
    ARGUMENT = "argument"
    """An argument does not exist in the hook, or is never passed."""
    ASYNC = "async"
    """A function must be ``async def``, or must not be."""
    BLOCKING_CALL = "blocking-call"
    """A call blocks the event loop."""
    SETTINGS_SCHEMA = "settings-schema"
    """Settings are read without a schema or under another name, or the schema is invalid."""
    CORE_IMPORT = "core-import"
    """A module of the agent is imported that is not available to plugins."""
    PLUGIN_IMPORT = "plugin-import"
    """Another plugin is imported."""
    IMPORT_FAILS = "import-fails"
    """The import of the plugin fails."""
    REJECTED = "rejected"
    """The agent rejects the plugin."""
    DEPRECATED = "deprecated"
    """A hook or an argument is deprecated and will be removed."""
    SLOW_IMPORT = "slow-import"
    """The import noticeably delays the start of the agent."""
    OUT_OF_PROCESS = "out-of-process"
    """An out-of-process plugin does not start, or violates the protocol."""


class Finding(Struct, frozen=True, order=True):
    """An error in a plugin."""

    file: Path
    line: int
    rule: Rule
    message: str
