"""Detection of pods that run already when they are admitted: after a restart of the agent, pods are admitted again."""

from __future__ import annotations

from nodeagent.contracts.context import AgentContext
from nodeagent.errors import RuntimeUnavailable
from nodeagent.model.pod import Pod

RETRY_SECONDS = 1.0


async def is_running(context: AgentContext, pod: Pod) -> bool:
    """Return whether *pod* has a sandbox; wait for the runtime, because a rejection would terminate the pod."""
    while True:
        try:
            return bool(await context.runtime.list_sandboxes(pod.uid))
        except RuntimeUnavailable:
            await context.clock.sleep(RETRY_SECONDS)
