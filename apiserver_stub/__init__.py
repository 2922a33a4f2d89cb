"""The bundled API server: lightweight, durable, and compatible with kube-apiserver for the clients of a node.

It imports only ``nodeagent.base`` of ``nodeagent``; agent and server communicate only through the Kubernetes API.
"""

import pluggy

hookimpl = pluggy.HookimplMarker("nodeagent_apiserver")

__all__ = ["hookimpl"]
