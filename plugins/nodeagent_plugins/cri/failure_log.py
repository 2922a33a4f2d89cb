"""Log of failed CRI calls, with the kubelet's messages."""

from __future__ import annotations

import logging
from typing import Any

from nodeagent.errors import NotFound, RuntimeFailure

_log = logging.getLogger(__name__)

_MESSAGES = {
    "RunPodSandbox": "RunPodSandbox from runtime service failed",
    "StopPodSandbox": "StopPodSandbox from runtime service failed",
    "RemovePodSandbox": "RemovePodSandbox from runtime service failed",
    "CreateContainer": "CreateContainer in sandbox from runtime service failed",
    "StartContainer": "StartContainer from runtime service failed",
    "StopContainer": "StopContainer from runtime service failed",
    "RemoveContainer": "RemoveContainer from runtime service failed",
    "PullImage": "PullImage from image service failed",
    "RemoveImage": "RemoveImage from image service failed",
}
"""Message by name of the call; failures of the other calls are logged only by their callers."""


def log_failure(name: str, request: Any, error: RuntimeFailure) -> RuntimeFailure:
    """Log that the call *name* failed, unless it removes an object that the runtime no longer has; return *error*."""
    message = _MESSAGES.get(name)
    if message is None or (isinstance(error, NotFound) and name.startswith(("Stop", "Remove"))):
        return error
    fields = {"podSandboxID": "pod_sandbox_id", "containerID": "container_id"}
    extra: dict[str, str] = {
        field: getattr(request, attribute) for field, attribute in fields.items() if hasattr(request, attribute)
    }
    if name in ("PullImage", "RemoveImage"):
        extra["image"] = request.image.image
    _log.error(message, extra={**extra, "err": str(error)})  # wording: ok
    return error
