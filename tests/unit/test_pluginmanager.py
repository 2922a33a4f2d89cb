"""Plugins are found, checked, ordered and called by name; a bad one harms nobody else."""

import asyncio
from dataclasses import replace

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import SandboxConfig
from nodeagent.errors import PluginError
from nodeagent.pluginmanager import PluginManager

SANDBOX = SandboxConfig("web", "uid-web", "default", hostname="x")


def admits(answer=None, error=None, order=None, name=""):
    class Plugin:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            if order is not None:
                order.append(name)
            if error is not None:
                raise error
            return answer

    return Plugin()


async def test_a_question_takes_the_first_answer_and_records_whose_it_was():
    manager = PluginManager()
    manager.register(admits(), name="a")
    manager.register(admits(Rejection("No", "because")), name="b")
    manager.register(admits(Rejection("Never", "asked")), name="c")

    answer = await manager.ask("nodeagent_admit_pod", subject="default/web", pod=None, active=())

    assert (answer.plugin, answer.value.reason) == ("b", "No")
    assert [(d.plugin, d.subject) for d in manager.decisions] == [("b", "default/web")]


async def test_plugins_are_asked_in_order_of_registration_unless_they_ask_to_be_first_or_last():
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

    await manager.ask("nodeagent_admit_pod", pod=None, active=())

    assert order == ["first", "a", "b", "last"]


async def test_an_error_in_a_question_names_the_plugin_and_is_counted():
    manager = PluginManager()
    manager.register(admits(error=OSError("boom")), name="bad")

    with pytest.raises(PluginError, match=r"plugin bad: nodeagent_admit_pod failed: .*boom"):
        await manager.ask("nodeagent_admit_pod", pod=None, active=())

    stats = manager.plugins()[0].stats["nodeagent_admit_pod"]
    assert (stats.calls, stats.failures) == (1, 1)


async def test_a_failure_is_told_with_its_place_in_the_plugin():
    manager = PluginManager()
    manager.register(admits(error=OSError("boom")), name="bad")

    with pytest.raises(PluginError, match=r"OSError\('boom'\) in test_pluginmanager\.py:\d+$"):
        await manager.ask("nodeagent_admit_pod", pod=None, active=())


async def test_an_answer_of_another_kind_is_told_with_the_plugin_s_name():
    manager = PluginManager()
    manager.register(admits(answer=False), name="slip")

    with pytest.raises(PluginError, match="plugin slip: nodeagent_admit_pod answered False, which is no Rejection"):
        await manager.ask("nodeagent_admit_pod", pod=None, active=())

    assert manager.plugins()[0].stats["nodeagent_admit_pod"].failures == 1


async def test_an_answer_of_another_kind_does_not_reach_who_asks_tolerantly():
    class Slips:
        @hookimpl
        async def nodeagent_rank_pods_for_eviction(self, candidates):
            return [7]

    manager = PluginManager()
    manager.register(Slips(), name="slip")

    order = await manager.fold("nodeagent_rank_pods_for_eviction", "candidates", (), tolerant=True, signal="s")

    assert order == ()


def test_one_where_a_sequence_is_wanted_is_told_with_the_plugin_s_name():
    class Slips:
        @hookimpl
        def nodeagent_provide_volume_kinds(self):
            return object()

    manager = PluginManager()
    manager.register(Slips(), name="slip")

    with pytest.raises(PluginError, match=r"plugin slip: .* answered <object .*, which is no sequence of VolumeKind"):
        manager.provide_all("nodeagent_provide_volume_kinds", context=None)


async def test_a_time_limit_of_the_plugin_s_own_is_not_taken_for_the_deadline():
    manager = PluginManager()
    manager.register(admits(error=TimeoutError("its database does not answer")), name="slow")

    with pytest.raises(PluginError, match=r"failed: .*its database does not answer"):
        await manager.ask("nodeagent_admit_pod", pod=None, active=())


async def test_a_failing_listener_does_not_keep_an_announcement_from_the_others():
    heard = []

    class Bad:
        @hookimpl
        async def nodeagent_pod_terminated(self, pod):
            raise ValueError("no")

    class Good:
        @hookimpl
        async def nodeagent_pod_terminated(self, pod):
            heard.append(pod)

    manager = PluginManager()
    manager.register(Bad(), name="bad")
    manager.register(Good(), name="good")

    await manager.announce("nodeagent_pod_terminated", pod="web")

    assert heard == ["web"]


async def test_a_plugin_that_hangs_is_given_up_after_the_deadline():
    class Hangs:
        @hookimpl
        async def nodeagent_admit_pod(self, pod):
            await asyncio.Event().wait()

    manager = PluginManager(deadline_seconds=0.01)
    manager.register(Hangs(), name="slow")

    with pytest.raises(PluginError, match=r"plugin slow: nodeagent_admit_pod took longer than 0\.01 s"):
        await manager.ask("nodeagent_admit_pod", pod=None, active=())


async def test_each_plugin_changes_what_the_one_before_returned():
    def adds(text):
        class Plugin:
            @hookimpl
            async def nodeagent_change_sandbox(self, sandbox):
                return replace(sandbox, hostname=sandbox.hostname + text) if text else None

        return Plugin()

    manager = PluginManager()
    for name in ("a", "", "b"):
        manager.register(adds(name), name=f"plugin{name}")

    changed = await manager.fold("nodeagent_change_sandbox", "sandbox", SANDBOX, pod=None)

    assert changed.hostname == "xab"


async def test_a_tolerant_question_passes_over_a_plugin_that_fails():
    manager = PluginManager()
    manager.register(admits(error=RuntimeError("broken")), name="a")
    manager.register(admits(Rejection("No", "because")), name="b")

    answer = await manager.ask("nodeagent_admit_pod", tolerant=True, pod=None, active=())

    assert answer.plugin == "b"
    assert manager.plugins()[0].stats["nodeagent_admit_pod"].failures == 1


async def test_a_tolerant_change_leaves_out_a_plugin_that_fails_and_names_its_subject():
    class Breaks:
        @hookimpl
        async def nodeagent_change_sandbox(self, sandbox):
            raise RuntimeError("broken")

    class Adds:
        @hookimpl
        async def nodeagent_change_sandbox(self, sandbox):
            return replace(sandbox, hostname="xa")

    manager = PluginManager()
    manager.register(Breaks(), name="broken")
    manager.register(Adds(), name="good")

    changed = await manager.fold(
        "nodeagent_change_sandbox", "sandbox", SANDBOX, subject="default/web", tolerant=True, pod=None
    )

    assert changed.hostname == "xa"
    assert [(d.plugin, d.subject) for d in manager.decisions] == [("good", "default/web")]


async def test_answers_are_gathered_with_the_names_of_their_plugins():
    class Reports:
        @hookimpl
        async def nodeagent_report_node(self):
            return NodeReport(capacity={"cpu": "1"})

    manager = PluginManager()
    manager.register(Reports(), name="stats")

    (answer,) = await manager.gather("nodeagent_report_node")

    assert (answer.plugin, answer.value.capacity) == ("stats", {"cpu": "1"})


def test_an_unknown_hook_is_refused_at_load():
    class Typo:
        @hookimpl
        async def nodeagent_admit_pods(self, pod): ...

    with pytest.raises(PluginError, match="plugin typo: implements nodeagent_admit_pods, which is no hook"):
        PluginManager().register(Typo(), name="typo")


def test_an_argument_that_the_hook_does_not_have_is_refused_at_load():
    class Wrong:
        @hookimpl
        async def nodeagent_admit_pod(self, pods): ...

    with pytest.raises(PluginError, match="pods"):
        PluginManager().register(Wrong(), name="wrong")


def test_a_moment_hook_that_is_not_async_is_refused_at_load():
    class Plain:
        @hookimpl
        def nodeagent_admit_pod(self, pod): ...

    with pytest.raises(PluginError, match="nodeagent_admit_pod must be an async def"):
        PluginManager().register(Plain(), name="plain")


def test_a_part_nobody_provides_is_named():
    with pytest.raises(PluginError, match="no plugin provides runtime"):
        PluginManager().provide("nodeagent_provide_runtime", context=None)


def test_a_third_party_provides_before_a_bundled_plugin():
    def provides(part):
        class Plugin:
            @hookimpl
            def nodeagent_provide_runtime(self, context):
                return part

        return Plugin()

    manager = PluginManager()
    manager.register(provides("bundled"), name="a", origin="nodeagent")
    manager.register(provides("foreign"), name="b", origin="elsewhere")

    assert manager.provide("nodeagent_provide_runtime", context=None) == "foreign"


def test_bundled_plugins_come_by_their_entry_points_and_can_be_disabled():
    manager = PluginManager()
    manager.load_entry_points(disabled=["cri"])

    plugins = {info.name: info for info in manager.plugins()}

    assert plugins["cri"].state == "disabled"
    assert plugins["cri"].origin == "nodeagent"
    assert all(info.state == "loaded" for name, info in plugins.items() if name != "cri")
    with pytest.raises(PluginError, match="no plugin provides runtime"):
        manager.provide("nodeagent_provide_runtime", context=None)


def test_disabling_a_plugin_that_is_not_installed_is_an_error():
    with pytest.raises(PluginError, match="plugin nope: cannot be disabled because it is not installed"):
        PluginManager().load_entry_points(disabled=["nope"])
