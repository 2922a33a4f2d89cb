"""The bundled API server: light, durable, and the same on the wire as the reference for the clients of a node.

It imports ``nodeagent.base`` and nothing else of ``nodeagent``; the two programs meet on the wire.
"""

import pluggy

hookimpl = pluggy.HookimplMarker("nodeagent_apiserver")

__all__ = ["hookimpl"]
