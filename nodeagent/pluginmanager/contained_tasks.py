"""Tasks and handlers of plugins: an exception such as ``SystemExit`` fails them and does not terminate the agent.

An event loop passes ``SystemExit`` of any task on to its caller, also of a task that a hook starts with
``asyncio.gather``. Therefore the agent's loop creates the tasks of plugins through :func:`create_task`. A task belongs
to a plugin if the context variable :data:`~nodeagent.base.logging.origin.PLUGIN` is set, which tasks inherit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

from nodeagent.base.aio import TaskOwner
from nodeagent.base.logging.origin import PLUGIN
from nodeagent.pluginmanager.metered import PluginAborted

_ORDINARY = (asyncio.CancelledError, GeneratorExit, Exception)


class ContainedCoroutine(Coroutine[Any, Any, Any]):
    """Coroutine of a plugin.

    Not an async function around it, which would leave it unawaited if the task is cancelled before it starts.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __repr__(self) -> str:
        return repr(self._coroutine)

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except _ORDINARY:
            raise
        except BaseException as error:
            raise _aborted(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return self._coroutine.throw(*error)
        except _ORDINARY:
            raise
        except BaseException as raised:
            raise _aborted(raised) from raised

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            return (yield from self._coroutine.__await__())
        except _ORDINARY:
            raise
        except BaseException as error:
            raise _aborted(error) from error


def create_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> asyncio.Task[Any]:
    """Create a task as a loop's factory of tasks does; one of a plugin is contained."""
    context: Context | None = options.get("context")
    plugin = PLUGIN.get() if context is None else context.get(PLUGIN, "")
    if plugin and isinstance(coroutine, Coroutine) and not isinstance(coroutine, ContainedCoroutine):
        coroutine = ContainedCoroutine(coroutine)
    return asyncio.Task(coroutine, loop=loop, **options)


class PluginTasks(TaskOwner):
    """Owner of the tasks that a third-party plugin starts; their log records have the name of the plugin."""

    def __init__(self, plugin: str) -> None:
        super().__init__(f"plugin {plugin}")
        self._plugin = plugin

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run *coroutine* as an owned task named *name*."""
        context = copy_context()
        context.run(PLUGIN.set, self._plugin)
        return context.run(super().start, ContainedCoroutine(coroutine), name)


def contain_handler(plugin: str, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """Return *handler* of a third-party plugin as a contained function; its log records have the name of the plugin."""

    async def handle(request: Any) -> Any:
        token = PLUGIN.set(plugin)
        try:
            return await handler(request)
        except _ORDINARY:
            raise
        except BaseException as error:
            raise _aborted(error) from error
        finally:
            PLUGIN.reset(token)

    handle.__qualname__ = getattr(handler, "__qualname__", repr(handler))
    return handle


def _aborted(error: BaseException) -> PluginAborted:
    return PluginAborted(f"raised {error!r}")
