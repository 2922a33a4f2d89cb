"""Plugins of one agent: discovery, hook calls with deadlines, statistics and quarantine."""

from nodeagent.pluginmanager.discovery import GROUP
from nodeagent.pluginmanager.hook_calls import InFlightCall
from nodeagent.pluginmanager.hook_stats import HookStats
from nodeagent.pluginmanager.manager import Decision, PluginInfo, PluginManager
from nodeagent.pluginmanager.quarantine import QuarantinePolicy

__all__ = ["GROUP", "Decision", "HookStats", "InFlightCall", "PluginInfo", "PluginManager", "QuarantinePolicy"]
