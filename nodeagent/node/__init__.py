"""Node object in the API: registration, status and lease."""

from nodeagent.node.manager import NodeManager

__all__ = ["NodeManager"]
