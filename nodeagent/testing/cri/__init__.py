"""Fake container runtime in a separate process, which an agent or another CRI client uses over gRPC.

::

    with started_runtime(tmp_path) as runtime:
        ...  # an agent with containerRuntimeEndpoint: runtime.endpoint

It needs no root privileges. Sandboxes and containers exist only in its memory: a container runs until it is stopped,
commands in it succeed, and every image is available. ``python -m nodeagent.testing.cri SOCKET`` starts it by hand.
"""

from nodeagent.testing.cri.process import RuntimeFailed, RuntimeHandle, started_runtime

__all__ = ["RuntimeFailed", "RuntimeHandle", "started_runtime"]
