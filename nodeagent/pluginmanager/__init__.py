"""Plugins of one agent: discovery, hook calls with deadlines, statistics and quarantine."""

from nodeagent.pluginmanager.discovery import GROUP
from nodeagent.pluginmanager.hook_calls import InFlightCall
from nodeagent.pluginmanager.hook_stats import HookStats
from nodeagent.pluginmanager.manager import PluginManager
from nodeagent.pluginmanager.quarantine import Quarantine, QuarantinePolicy
from nodeagent.pluginmanager.records import Decision, PluginInfo

__all__ = [
    "GROUP",
    "Decision",
    "HookStats",
    "InFlightCall",
    "PluginInfo",
    "PluginManager",
    "Quarantine",
    "QuarantinePolicy",
]
