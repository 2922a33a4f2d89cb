"""Report on the plugins of the running agent, changes and profiles of them: ``nodeagent plugins list`` and others."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nodeagent.model.wire import WireStruct

PLUGINS_QUERY = "plugins"
"""Local query: takes no arguments, returns a :class:`PluginsReport`."""
CHANGE_QUERY = "plugins.change"
"""Local query: takes a :class:`PluginChangeRequest`, returns a :class:`PluginChanged`."""

PROFILE_QUERY = "plugins.profile"
"""Local query: takes a :class:`PluginProfileRequest`, returns a :class:`PluginProfile`."""
MAX_PROFILE_SECONDS = 300.0


class HookLine(WireStruct, frozen=True, omit_defaults=False):
    """Call statistics of one plugin and async hook since the agent started."""

    hook: str
    calls: int
    failures: int
    abandoned: int
    """Calls that ignored their cancellation at the deadline; included in the failures."""
    skipped: int
    """Calls that were not made because the plugin was in quarantine."""
    p99_seconds: float | None
    """Upper bound of the duration of 99 % of the calls."""
    cpu_seconds: float
    longest_step_seconds: float
    """Longest time for which a call occupied the event loop."""


class PluginLine(WireStruct, frozen=True, omit_defaults=False):
    """A plugin, or an object that a plugin has registered."""

    name: str
    version: str
    origin: str
    """Distribution that contains the plugin."""
    hooks: list[str]
    state: str
    """``ok``, ``failing``, ``quarantined``, ``disabled`` or ``failed: …``."""
    required: bool = False
    """Pods wait while the plugin fails."""
    since: datetime | None = None
    """Time of the first failure since the plugin last succeeded."""
    until: datetime | None = None
    """End of the quarantine."""
    last_error: str = ""
    calls: list[HookLine] = msgspec.field(default_factory=list)


class DecisionLine(WireStruct, frozen=True, omit_defaults=False):
    """A plugin's decision about a pod, an image or the node."""

    plugin: str
    hook: str
    subject: str
    verdict: str  # wording: ok
    at: datetime
    last: datetime
    """Time of the latest repetition."""
    count: int
    """Number of times that the plugin made this decision without another one in between."""


class PluginsReport(WireStruct, frozen=True, omit_defaults=False):
    """All plugins, and the latest decisions, oldest first."""

    plugins: list[PluginLine]
    decisions: list[DecisionLine]


class PluginAction(StrEnum):
    """Change of a plugin while the agent runs."""

    ENABLE = "enable"
    DISABLE = "disable"
    RELOAD = "reload"


class PluginChangeRequest(WireStruct, frozen=True):
    """Request to change a plugin until the agent restarts."""

    action: PluginAction
    plugin: str


class PluginChanged(WireStruct, frozen=True, omit_defaults=False):
    """A completed change."""

    plugin: str
    version: str
    hooks: list[str]
    """The hooks that the plugin implements now."""
    notes: list[str]
    """Limits of the change, for the operator."""


class PluginProfileRequest(WireStruct, frozen=True):
    """Request for a profile of a plugin."""

    plugin: str
    seconds: float
    """Duration, at most :data:`MAX_PROFILE_SECONDS`."""


class ProfiledHook(WireStruct, frozen=True, omit_defaults=False):
    """Calls of an async hook during a profile."""

    hook: str
    calls: int
    cpu_seconds: float


class ProfiledCode(WireStruct, frozen=True, omit_defaults=False):
    """CPU time of a line of a plugin, with the code outside of the plugin that it calls."""

    location: str
    """File and line."""
    function: str
    cpu_seconds: float


class ProfiledAllocation(WireStruct, frozen=True, omit_defaults=False):
    """Memory that a line of a plugin has allocated and that is still in use at the end."""

    location: str
    objects: int
    bytes: int


class PluginProfile(WireStruct, frozen=True, omit_defaults=False):
    """Activity of one plugin in the process of the agent."""

    plugin: str
    seconds: float
    cpu_seconds: float
    agent_cpu_seconds: float
    """CPU time of the agent, with all plugins, in the same time."""
    allocated_bytes: int
    """Memory that was allocated in this time and is still in use."""
    hooks: list[ProfiledHook]
    code: list[ProfiledCode]
    """Lines with the most CPU time, largest first."""
    allocations: list[ProfiledAllocation]
    """Lines with the most memory, largest first."""
