"""Tests for the plugin manager: loading, validation, calling order and failures of plugins."""

import asyncio
import inspect
from dataclasses import replace

import pytest

from nodeagent import hookimpl, hookspecs
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import SandboxConfig
from nodeagent.errors import PluginError, PluginUnavailable
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy

SANDBOX = SandboxConfig("web", "uid-web", "default", hostname="x")


def admits(result=None, error=None, order=None, name=""):
    class Plugin:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            if order is not None:
                order.append(name)
            if error is not None:
                raise error
            return result

    return Plugin()


async def test_call_first_returns_first_result_and_records_its_plugin():
    manager = PluginManager()
    manager.register(admits(), name="a")
    manager.register(admits(Rejection("No", "because")), name="b")
    manager.register(admits(Rejection("Never", "asked")), name="c")

    result = await manager.call_first("nodeagent_admit_pod", subject="default/web", pod=None, active=())

    assert (result.plugin, result.value.reason) == ("b", "No")
    assert [(d.plugin, d.subject) for d in manager.decisions] == [("b", "default/web")]


async def test_plugins_run_in_registration_order_between_tryfirst_and_trylast():
    order = []

    class First:
        @hookimpl(tryfirst=True)
        async def nodeagent_admit_pod(self):
            order.append("first")

    class Last:
        @hookimpl(trylast=True)
        async def nodeagent_admit_pod(self):
            order.append("last")

    manager = PluginManager()
    manager.register(Last(), name="l")
    manager.register(admits(order=order, name="a"), name="a")
    manager.register(admits(order=order, name="b"), name="b")
    manager.register(First(), name="f")

    await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    assert order == ["first", "a", "b", "last"]


async def test_error_in_decision_hook_names_plugin_and_is_counted():
    manager = PluginManager()
    manager.register(admits(error=OSError("boom")), name="bad")

    with pytest.raises(PluginError, match=r"plugin bad: nodeagent_admit_pod failed: .*boom"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    stats = manager.plugins()[0].stats["nodeagent_admit_pod"]
    assert (stats.calls, stats.failures) == (1, 1)


async def test_error_contains_file_and_line_in_the_plugin():
    manager = PluginManager()
    manager.register(admits(error=OSError("boom")), name="bad")

    with pytest.raises(PluginError, match=r"OSError\('boom'\) in test_manager\.py:\d+$"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())


async def test_result_of_wrong_type_is_an_error_that_names_the_plugin():
    manager = PluginManager()
    manager.register(admits(result=False), name="slip")

    with pytest.raises(PluginError, match="plugin slip: nodeagent_admit_pod returned False, expected Rejection"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    assert manager.plugins()[0].stats["nodeagent_admit_pod"].failures == 1


async def test_result_of_wrong_type_is_dropped_by_a_tolerant_call():
    class Slips:
        @hookimpl
        async def nodeagent_rank_pods_for_eviction(self, candidates):
            return [7]

    manager = PluginManager()
    manager.register(Slips(), name="slip")

    order = await manager.call_chain("nodeagent_rank_pods_for_eviction", "candidates", (), tolerant=True, signal="s")

    assert order == ()


def test_single_object_instead_of_a_sequence_is_an_error():
    class Slips:
        @hookimpl
        def nodeagent_provide_volume_kinds(self):
            return object()

    manager = PluginManager()
    manager.register(Slips(), name="slip")
    manager.contain(QuarantinePolicy(), ["slip"])

    with pytest.raises(PluginError, match=r"plugin slip: .* returned <object .*, expected a sequence of VolumeKind"):
        manager.provide_all("nodeagent_provide_volume_kinds", context=None)


async def test_timeout_raised_by_the_plugin_is_not_reported_as_the_deadline():
    manager = PluginManager()
    manager.register(admits(error=TimeoutError("its database does not answer")), name="slow")

    with pytest.raises(PluginError, match=r"failed: .*its database does not answer"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())


async def test_failing_plugin_does_not_prevent_notification_of_others():
    notified = []

    class Bad:
        @hookimpl
        async def nodeagent_pod_terminated(self, pod):
            raise ValueError("no")

    class Good:
        @hookimpl
        async def nodeagent_pod_terminated(self, pod):
            notified.append(pod)

    manager = PluginManager()
    manager.register(Bad(), name="bad")
    manager.register(Good(), name="good")

    await manager.notify("nodeagent_pod_terminated", pod="web")

    assert notified == ["web"]


async def test_hanging_plugin_is_cancelled_at_the_deadline():
    class Hangs:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            await asyncio.Event().wait()

    manager = PluginManager(deadline_seconds=0.01)
    manager.register(Hangs(), name="slow")

    with pytest.raises(PluginError, match=r"plugin slow: nodeagent_admit_pod exceeded its deadline of 0\.01 s"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())


async def test_call_chain_passes_each_result_to_the_next_plugin():
    def adds(text):
        class Plugin:
            @hookimpl
            async def nodeagent_mutate_sandbox(self, sandbox):
                return replace(sandbox, hostname=sandbox.hostname + text) if text else None

        return Plugin()

    manager = PluginManager()
    for name in ("a", "", "b"):
        manager.register(adds(name), name=f"plugin{name}")

    changed = await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", SANDBOX, pod=None)

    assert changed.hostname == "xab"


async def test_tolerant_call_first_skips_a_failing_plugin():
    manager = PluginManager()
    manager.register(admits(error=RuntimeError("broken")), name="a")
    manager.register(admits(Rejection("No", "because")), name="b")

    result = await manager.call_first("nodeagent_admit_pod", tolerant=True, pod=None, active=())

    assert result.plugin == "b"
    assert manager.plugins()[0].stats["nodeagent_admit_pod"].failures == 1


async def test_tolerant_call_chain_skips_a_failing_plugin_and_records_subject():
    class Breaks:
        @hookimpl
        async def nodeagent_mutate_sandbox(self, sandbox):
            raise RuntimeError("broken")

    class Adds:
        @hookimpl
        async def nodeagent_mutate_sandbox(self, sandbox):
            return replace(sandbox, hostname="xa")

    manager = PluginManager()
    manager.register(Breaks(), name="broken")
    manager.register(Adds(), name="good")

    changed = await manager.call_chain(
        "nodeagent_mutate_sandbox", "sandbox", SANDBOX, subject="default/web", tolerant=True, pod=None
    )

    assert changed.hostname == "xa"
    assert [(d.plugin, d.subject) for d in manager.decisions] == [("good", "default/web")]


async def test_gather_returns_results_with_plugin_names():
    class Reports:
        @hookimpl
        async def nodeagent_report_node(self):
            return NodeReport(capacity={"cpu": "1"})

    manager = PluginManager()
    manager.register(Reports(), name="stats")

    (result,) = await manager.gather("nodeagent_report_node")

    assert (result.plugin, result.value.capacity) == ("stats", {"cpu": "1"})


def test_unknown_hook_is_rejected_at_load():
    class Typo:
        @hookimpl
        async def nodeagent_admit_pods(self, pod): ...

    with pytest.raises(PluginError, match="plugin typo: implements unknown hook nodeagent_admit_pods"):
        PluginManager().register(Typo(), name="typo")


def test_unknown_argument_is_rejected_at_load():
    class Wrong:
        @hookimpl
        async def nodeagent_admit_pod(self, pods): ...

    with pytest.raises(PluginError, match="pods"):
        PluginManager().register(Wrong(), name="wrong")


def test_plain_function_for_an_async_hook_is_rejected_at_load():
    class Plain:
        @hookimpl
        def nodeagent_admit_pod(self, pod): ...

    with pytest.raises(PluginError, match="nodeagent_admit_pod must be an async def"):
        PluginManager().register(Plain(), name="plain")


def test_missing_provider_is_named():
    with pytest.raises(PluginError, match="no plugin provides runtime"):
        PluginManager().provide("nodeagent_provide_runtime", context=None)


def test_third_party_provider_takes_precedence_over_bundled_one():
    def provides(runtime):
        class Plugin:
            @hookimpl
            def nodeagent_provide_runtime(self, context):
                return runtime

        return Plugin()

    manager = PluginManager()
    manager.register(provides("bundled"), name="a", origin="nodeagent")
    manager.register(provides("third party"), name="b", origin="elsewhere")

    assert manager.provide("nodeagent_provide_runtime", context=None) == "third party"


def test_bundled_plugins_load_from_entry_points_and_can_be_disabled():
    manager = PluginManager()
    manager.load_entry_points(disabled=["cri"])

    plugins = {info.name: info for info in manager.plugins()}

    assert plugins["cri"].state == "disabled"
    assert plugins["cri"].origin == "nodeagent"
    assert all(info.state == "loaded" for name, info in plugins.items() if name != "cri")
    with pytest.raises(PluginError, match="no plugin provides runtime"):
        manager.provide("nodeagent_provide_runtime", context=None)


def test_disabling_a_plugin_that_is_not_installed_fails():
    with pytest.raises(PluginError, match="plugin nope: cannot be disabled because it is not installed"):
        PluginManager().load_entry_points(disabled=["nope"])


# --- containment ----------------------------------------------------------------------------------------------


def broken(name="bad", *, required=(), failures=2, **manager_arguments):
    """Return a manager with a plugin that fails in every admission, and after how many failures it is skipped."""
    manager = PluginManager(**manager_arguments)
    manager.register(admits(error=OSError("boom")), name=name)
    manager.contain(QuarantinePolicy(failures=failures, retry_seconds=60), required)
    return manager


async def fail(manager, times):
    for _ in range(times):
        with pytest.raises(PluginError, match="boom"):
            await manager.call_first("nodeagent_admit_pod", pod=None, active=())


async def test_optional_plugin_in_quarantine_is_skipped_and_others_decide():
    manager = broken()
    await fail(manager, 2)
    manager.register(admits(Rejection("No", "because")), name="good")

    result = await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    assert result.plugin == "good"
    stats = manager.plugins()[0].stats["nodeagent_admit_pod"]
    assert (stats.calls, stats.failures, stats.skipped) == (2, 2, 1)


async def test_required_plugin_in_quarantine_is_unavailable_without_a_call():
    manager = broken(required=["bad"])
    await fail(manager, 2)

    with pytest.raises(PluginUnavailable, match=r"plugin bad: failed repeatedly, next attempt in \d+ s: .*boom"):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    assert manager.plugins()[0].stats["nodeagent_admit_pod"].calls == 2


async def test_quarantine_is_reported_once_per_change(caplog):
    manager, reported = broken(), []
    manager.calls.on_quarantine = lambda plugin, state: reported.append((plugin, state.until is not None))

    await fail(manager, 2)
    for _ in range(3):
        await manager.call_first("nodeagent_admit_pod", pod=None, active=())

    assert reported == [("bad", True)]
    assert [record.message for record in caplog.records] == ["Plugin hook failed", "Plugin quarantined"]


async def test_plugin_object_shares_the_quarantine_of_its_plugin():
    manager = broken("bad.component")

    await fail(manager, 2)

    assert not manager.calls.quarantines.get("bad").allows(0)
    assert manager.calls.quarantines.get("bad.component") is None


async def test_bundled_plugin_is_never_in_quarantine():
    manager = PluginManager()
    manager.register(admits(error=OSError("boom")), name="cri", origin="nodeagent")
    manager.contain(QuarantinePolicy(failures=1))

    await fail(manager, 3)

    assert manager.calls.quarantines.get("cri") is None


def fails_to_start(error):
    class Plugin:
        @hookimpl
        def nodeagent_configure(self, plugins):
            plugins.register(admits(Rejection("No", "because")), name="bad.policy")
            raise error

    return Plugin()


@pytest.mark.parametrize("error", [OSError("boom"), SystemExit(1), BaseException("boom")])
async def test_optional_plugin_that_fails_to_start_is_removed_with_its_objects(error):
    manager = PluginManager()
    manager.register(fails_to_start(error), name="bad")

    manager.provide_all("nodeagent_configure", config=None, context=None, plugins=manager)

    assert await manager.call_first("nodeagent_admit_pod", pod=None, active=()) is None
    assert {info.name: info.state.partition(" in ")[0] for info in manager.plugins()} == dict.fromkeys(
        ("bad", "bad.policy"), f"failed: plugin bad: nodeagent_configure failed: {error!r}"
    )


def test_required_plugin_that_fails_to_start_is_an_error():
    manager = PluginManager()
    manager.register(fails_to_start(OSError("boom")), name="bad")
    manager.contain(QuarantinePolicy(), ["bad"])

    with pytest.raises(PluginError, match="boom"):
        manager.provide_all("nodeagent_configure", config=None, context=None, plugins=manager)


def test_required_plugin_that_is_not_installed_is_an_error():
    with pytest.raises(PluginError, match="plugin policy: is required, but not installed"):
        PluginManager().contain(QuarantinePolicy(), ["policy"])


def test_every_async_hook_declares_its_deadline():
    hooks = [hook for name, hook in vars(hookspecs).items() if name.startswith("nodeagent_")]

    undeclared = [
        hook.__name__ for hook in hooks if inspect.iscoroutinefunction(hook) != hasattr(hook, "deadline_seconds")
    ]

    assert undeclared == []
