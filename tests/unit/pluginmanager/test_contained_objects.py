"""Tests for objects that third-party plugins provide: their failures are attributed and do not affect other objects."""

import asyncio

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.volumes import DriverVolumeKind
from nodeagent.errors import PluginError, PluginTimeout, VolumeError
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy, contained_calls


class Kind:
    name = "example.com~badge"

    def __init__(self, setup=None, supports=lambda: True):
        self._setup, self._supports = setup, supports
        self.volumes = 0

    def supports(self, volume):
        return self._supports()

    async def setup(self, pod, volume, directory):
        self.volumes += 1
        return await self._setup()

    async def teardown(self, pod_uid, directory):
        pass


class DriverKind(Kind):
    def directory_name(self, volume):
        return "vendor~badge"

    def owns(self, directory):
        return False


def provided(kind, *, origin="badge-plugin", failures=2):
    class Plugin:
        @hookimpl
        def nodeagent_provide_volume_kinds(self):
            return [kind]

    manager = PluginManager()
    manager.register(Plugin(), name="badge", origin=origin)
    manager.contain(QuarantinePolicy(failures=failures))
    (result,) = manager.provide_all("nodeagent_provide_volume_kinds", context=None)
    return manager, result.value[0]


async def set_up(kind):
    return await kind.setup(pod=None, volume=None, directory=None)


async def test_contained_object_has_the_contracts_and_attributes_of_the_original():
    async def setup():
        return "mounted"

    original = DriverKind(setup)
    _, kind = provided(original)

    assert await set_up(kind) == "mounted"
    assert (kind.name, kind.volumes, kind.supports(None)) == ("example.com~badge", 1, True)
    assert isinstance(kind, DriverKind)
    assert kind == original and kind._setup is setup
    assert isinstance(kind, DriverVolumeKind)
    assert not isinstance(provided(Kind())[1], DriverVolumeKind)


async def test_objects_of_bundled_plugins_are_called_directly():
    original = Kind()

    assert provided(original, origin="nodeagent")[1] is original


async def test_failures_of_methods_name_the_plugin_and_start_a_quarantine(caplog):
    async def setup():
        raise KeyError("badge")

    manager, kind = provided(Kind(setup))

    for _ in range(2):
        with pytest.raises(
            PluginError, match=r"plugin badge: volume_kind\.setup failed: KeyError.*test_contained_objects"
        ):
            await set_up(kind)

    stats = manager.info("badge").stats["volume_kind.setup"]
    assert (stats.calls, stats.failures) == (2, 2)
    assert not manager.calls.quarantines["badge"].allows(0)
    assert [record.message for record in caplog.records] == ["Plugin hook failed", "Plugin quarantined"]
    assert caplog.records[0].exc_info[0] is KeyError


async def test_error_of_the_contract_does_not_count_as_a_failure():
    async def setup():
        raise VolumeError("no badge left")

    manager, kind = provided(Kind(setup))

    with pytest.raises(VolumeError, match="no badge left"):
        await set_up(kind)
    assert manager.calls.quarantines == {}
    assert manager.info("badge").stats["volume_kind.setup"].failures == 0


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), BaseException()])
async def test_exception_of_a_plain_method_is_a_failure_of_the_plugin(error):
    def supports():
        raise error

    manager, kind = provided(Kind(supports=supports))

    with pytest.raises(PluginError, match=rf"plugin badge: volume_kind\.supports raised {type(error).__name__}\("):
        kind.supports(None)
    assert manager.calls.failing == [("badge", "volume_kind.supports")]


async def test_method_that_hangs_exceeds_its_deadline(monkeypatch):
    async def setup():
        await asyncio.Event().wait()

    monkeypatch.setattr(contained_calls, "CONTAINED", {"nodeagent_provide_volume_kinds": 0.01})
    manager, kind = provided(Kind(setup))

    with pytest.raises(PluginTimeout, match=r"volume_kind\.setup exceeded its deadline"):
        await set_up(kind)
    assert manager.calls.in_flight == []


async def test_running_method_is_reported_with_its_plugin():
    seen = []

    def supports():
        seen.append(manager.calls.running)
        return True

    manager, kind = provided(Kind(supports=supports))

    assert kind.supports(None)
    assert [(call.plugin, call.hook) for call in seen] == [("badge", "volume_kind.supports")]
    assert manager.calls.running is None


class Loop:
    name = "badge"

    def __init__(self, *results):
        self._results = list(results)

    async def run(self):
        result = self._results.pop(0)
        if result is not None:
            raise result
        await asyncio.Event().wait()


async def test_loop_is_not_in_flight_and_recovers_when_it_runs_for_the_window():
    class Plugin:
        @hookimpl
        def nodeagent_provide_background_loops(self):
            return [Loop(ValueError("first"), None)]

    manager = PluginManager()
    manager.register(Plugin(), name="badge", origin="badge-plugin")
    manager.contain(QuarantinePolicy(window_seconds=0.01))
    (result,) = manager.provide_all("nodeagent_provide_background_loops", context=None, plugins=manager)
    loop = result.value[0]

    with pytest.raises(PluginError, match=r"background_loop\.run failed: ValueError"):
        await loop.run()
    assert manager.calls.failing == [("badge", "background_loop.run")]
    task = asyncio.create_task(loop.run())
    while manager.calls.failing:
        await asyncio.sleep(0.01)

    assert manager.calls.in_flight == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
