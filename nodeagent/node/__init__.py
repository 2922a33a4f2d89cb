"""The node's own object in the API: registration, status, lease."""

from nodeagent.node.manager import NodeManager

__all__ = ["NodeManager"]
