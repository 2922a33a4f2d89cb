"""Capabilities of the protocol by their names in the settings."""

from __future__ import annotations

from types import MappingProxyType

from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent_plugins.external_plugins.settings import CAPABILITIES

NUMBERS = MappingProxyType({name: api.Capability.Value(name.upper()) for name in CAPABILITIES})
"""Number of each capability in the protocol."""
