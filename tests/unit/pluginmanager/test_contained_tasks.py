"""Tests for tasks and handlers of plugins that raise exceptions which would terminate the event loop."""

import asyncio

import pytest

from nodeagent.base.logging.origin import PLUGIN
from nodeagent.pluginmanager.contained_tasks import PluginTasks, contain_handler, create_task
from nodeagent.pluginmanager.metered import PluginAborted


class Quit(BaseException):
    """Exception that code for ordinary exceptions does not handle."""


async def fail(error):
    await asyncio.sleep(0)
    raise error


def run(main, plugin="shelf"):
    """Run *main* in a loop as the agent's, in the context of a plugin."""

    async def prepared():
        asyncio.get_running_loop().set_task_factory(create_task)
        PLUGIN.set(plugin)
        return await main()

    return asyncio.run(prepared())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), Quit()])
def test_task_of_a_plugin_that_exits_fails_instead(error):
    async def main():
        with pytest.raises(PluginAborted) as raised:
            await asyncio.gather(fail(error))
        return str(raised.value)

    assert run(main) == f"raised {error!r}"


def test_task_of_the_agent_may_exit():
    async def main():
        await asyncio.gather(fail(SystemExit(3)))

    with pytest.raises(SystemExit):
        run(main, plugin="")


def test_task_of_a_plugin_returns_is_cancelled_and_times_out_as_others():
    async def main():
        assert await asyncio.gather(asyncio.sleep(0, "done")) == ["done"]
        with pytest.raises(OSError, match="no shelf"):
            await asyncio.create_task(fail(OSError("no shelf")))
        for steps in (0, 1):  # Cancelled before and after its start.
            task = asyncio.create_task(asyncio.sleep(60))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(TimeoutError):
            await asyncio.create_task(asyncio.wait_for(asyncio.Event().wait(), 0))

    run(main)


async def test_owned_task_that_exits_is_logged_with_its_plugin(caplog):
    names = []

    async def work():
        names.append(PLUGIN.get())
        raise SystemExit(3)

    async with PluginTasks("shelf") as tasks:
        task = tasks.start(work(), "sort")
        await asyncio.wait([task])

    assert names == ["shelf"]
    assert PLUGIN.get() == ""
    assert [(record.message, record.task) for record in caplog.records] == [("Task failed", "plugin shelf/sort")]
    assert "raised SystemExit(3)" in caplog.text


async def test_handler_that_exits_fails_instead():
    async def handler(request):
        assert PLUGIN.get() == "shelf"
        if request is None:
            raise SystemExit(3)
        return request

    contained = contain_handler("shelf", handler)

    assert await contained("book") == "book"
    with pytest.raises(PluginAborted, match=r"raised SystemExit\(3\)"):
        await contained(None)
    assert PLUGIN.get() == ""
    assert contained.__qualname__ == handler.__qualname__
