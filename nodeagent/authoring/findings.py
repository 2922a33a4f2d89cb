"""What the check of a plugin can find, each with its rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Rule(StrEnum):
    """What is judged. The value stands in the output, and in ``# nodeagent: ignore[RULE]`` at the end of a line."""

    ENTRY_POINT = "entry-point"
    """No entry point in group ``nodeagent``, or one that names nothing."""
    SYNTAX = "syntax"
    """A file is no Python."""
    UNKNOWN_HOOK = "unknown-hook"
    """A hook that nobody calls."""
    NO_HOOKS = "no-hooks"
    """Nothing is marked with ``@hookimpl``."""
    UNMARKED_HOOK = "unmarked-hook"
    """A function with a hook's name that lacks ``@hookimpl``."""
    HOOK_OPTION = "hook-option"
    """An option of ``@hookimpl`` that the agent does not know."""
    ARGUMENT = "argument"
    """An argument that the hook does not have, or that would never be passed."""
    ASYNC = "async"
    """A plain function where the agent awaits, or the other way round."""
    BLOCKING_CALL = "blocking-call"
    """A call that holds up the event loop."""
    SETTINGS_SCHEMA = "settings-schema"
    """Settings are read without a schema, under another name, or the schema is none."""
    CORE_IMPORT = "core-import"
    """An import from the agent that plugins may not rely on."""
    PLUGIN_IMPORT = "plugin-import"
    """An import from another plugin."""
    IMPORT_FAILS = "import-fails"
    """The plugin cannot be imported here."""
    REFUSED = "refused"
    """The agent itself would refuse the plugin."""
    SLOW_IMPORT = "slow-import"
    """Importing takes so long that the agent's start shows it."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something that is wrong with a plugin."""

    file: Path
    line: int
    rule: Rule
    message: str
