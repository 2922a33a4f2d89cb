"""Plugins and their decisions, as listed by ``nodeagent plugins list``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import field

from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.pluginmanager.hook_stats import HookStats
from nodeagent.pluginmanager.quarantine import Quarantine


class Decision(MutableStruct):
    """A plugin's recorded decision about a pod, an image or the node."""

    plugin: str
    hook: str
    subject: str
    verdict: str  # wording: ok
    at: float
    last_at: float = 0.0
    """Time of the latest repetition."""
    count: int = 1
    skipped: bool = False
    """The plugin was not called, because it is in quarantine."""


class PluginInfo(MutableStruct):
    """One plugin, as listed by ``nodeagent plugins list``."""

    name: str
    version: str = ""
    origin: str = ""
    hooks: tuple[str, ...] = ()
    state: str = "loaded"
    """``loaded``, ``disabled`` or ``failed: …``."""
    stats: dict[str, HookStats] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """True if the plugin was skipped at startup."""
        return self.state.startswith("failed")

    @property
    def plugin(self) -> str:
        """Name of the plugin that the object belongs to."""
        return self.name.partition(".")[0]


class Withdrawn(Struct, frozen=True):
    """Objects of a plugin that were removed at runtime, to restore them."""

    objects: Mapping[str, Any]
    infos: Sequence[PluginInfo]
    provided: Mapping[tuple[str, str], Any]
    quarantine: Quarantine | None
