"""Kubernetes objects as the protocol transports them: JSON."""

from __future__ import annotations

import msgspec
from cachetools import LRUCache

from nodeagent.model.pod import Pod

_CACHED_PODS = 256
_encoder = msgspec.json.Encoder()
_pods: LRUCache[int, tuple[Pod, bytes]] = LRUCache(_CACHED_PODS)
"""Encoded pods by identity; each entry refers to its pod, so that the identity is not reused."""


def encode_pod(pod: Pod) -> bytes:
    """Return *pod* as JSON; the result is cached, because several hooks receive the same object."""
    cached = _pods.get(id(pod))
    if cached is None:
        cached = _pods[id(pod)] = (pod, _encoder.encode(pod))
    return cached[1]


def encode(value: msgspec.Struct) -> bytes:
    """Return an API object as JSON."""
    return _encoder.encode(value)
