"""Runtime classes: the runtime handler of a pod."""

from __future__ import annotations

from nodeagent.contracts.api import RUNTIME_CLASSES, Api
from nodeagent.errors import ApiNotFound, NodeAgentError
from nodeagent.model.pod import Pod


async def read_runtime_handler(api: Api | None, pod: Pod) -> str:
    """Return the runtime handler of the pod's runtime class; empty for the default.

    :param api: the API client; ``None`` in standalone mode.
    :raises NodeAgentError: the class does not exist or is not readable.
    """
    name = pod.spec.runtime_class_name
    if not name:
        return ""
    if api is None:
        raise NodeAgentError(f'RuntimeClass "{name}" not found: no API server configured')
    try:
        found = await api.get(RUNTIME_CLASSES, name, into=dict, cached=True)
    except ApiNotFound as error:
        raise NodeAgentError(f'RuntimeClass "{name}" not found', transient=True) from error
    return str(found.get("handler", ""))
