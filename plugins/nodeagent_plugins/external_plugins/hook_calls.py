"""Calls of a plugin on behalf of hooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nodeagent.base.plugin_rpc import Method
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import PluginError
from nodeagent_plugins.external_plugins.session import Session

MAX_MESSAGE = 1024
_MARGIN_SECONDS = 0.05
"""The plugin's deadline is earlier than that of the hook, so that the error names the plugin's method."""
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")


class HookCalls:
    """Calls methods of a plugin with the deadlines of hooks.

    :param deadline_of: returns the time limit of a hook.
    """

    def __init__(self, session: Session, deadline_of: Callable[[str], float]) -> None:
        self._session, self._deadline_of = session, deadline_of

    @property
    def plugin(self) -> str:
        """Name of the plugin."""
        return self._session.plugin.name

    @property
    def is_starting(self) -> bool:
        """True while a call would wait for the plugin."""
        return self._session.is_starting

    async def __call__(self, hook: str, method: Method, request: Any) -> Any:
        """Send *request* and return the response.

        :raises PluginError: the call failed.
        """
        seconds = self._deadline_of(hook)
        return await self._session.call(hook, method, request, seconds - _MARGIN_SECONDS)

    def rejection(self, hook: str, reason: str, message: str, *, retry: bool = False) -> Rejection:
        """Return a rejection with the plugin's reason and message.

        :raises PluginError: the reason is invalid.
        """
        if not _REASON.fullmatch(reason):
            raise self.invalid(hook, f"reason {reason[:80]!r}, expected CamelCase")
        return Rejection(reason, message[:MAX_MESSAGE], retry=retry)

    def invalid(self, hook: str, text: str) -> PluginError:
        """Return the error for a response that violates the protocol."""
        return PluginError(self.plugin, f"{hook} returned {text}")
