"""Tasks and cleanup callbacks of each plugin, so that they end when the plugin is disabled or reloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from msgspec.structs import replace

from nodeagent.base.aio import TaskOwner
from nodeagent.contracts.context import ConfigContext
from nodeagent.pluginmanager.contained_tasks import PluginTasks


class PluginScope:
    """Owner of the tasks and callbacks of one plugin."""

    def __init__(self, tasks: TaskOwner) -> None:
        self.tasks = tasks
        self.cleanup = AsyncExitStack()

    async def close(self) -> None:
        """Cancel the tasks, then run the callbacks."""
        await self.tasks.close()
        await self.cleanup.aclose()


class PluginScopes:
    """The scopes of all plugins of an agent.

    :param is_bundled: returns whether a plugin is a part of the agent.
    """

    def __init__(self, is_bundled: Callable[[str], bool]) -> None:
        self._is_bundled = is_bundled
        self._scopes: dict[str, PluginScope] = {}

    def narrow(self, plugin: str, context: ConfigContext) -> ConfigContext:
        """Return *context* with the scope of the plugin; an object that another one has registered shares its scope."""
        scope = self._scopes.get(plugin)
        if scope is None:
            tasks = TaskOwner(f"plugin {plugin}") if self._is_bundled(plugin) else PluginTasks(plugin)
            scope = self._scopes[plugin] = PluginScope(tasks)
            context.cleanup.push_async_callback(scope.cleanup.aclose)
        return replace(context, tasks=scope.tasks, cleanup=scope.cleanup)

    def detach(self, plugin: str) -> PluginScope | None:
        """Return the scope of a plugin; the next context gets a new one."""
        return self._scopes.pop(plugin, None)

    def attach(self, plugin: str, scope: PluginScope | None) -> None:
        """Restore a detached scope."""
        if scope is not None:
            self._scopes[plugin] = scope

    async def close_tasks(self) -> None:
        """Cancel the tasks of all plugins and wait for them, within the time limit."""
        await asyncio.gather(*(scope.tasks.close() for scope in self._scopes.values()))
