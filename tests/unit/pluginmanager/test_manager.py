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
from nodeagent.testing import make_pod

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

    class Idle:
        @hookimpl
        async def nodeagent_report_node(self):
            return None

    manager = PluginManager()
    manager.register(Reports(), name="stats")
    manager.register(Idle(), name="idle")

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


# --- changes at runtime ---------------------------------------------------------------------------------------


def provides_kinds(*kinds):
    class Plugin:
        @hookimpl
        def nodeagent_provide_volume_kinds(self):
            return list(kinds) if kinds else None

    return Plugin()


KINDS = "nodeagent_provide_volume_kinds"


def with_kinds():
    """Return a manager whose plugin ``a`` has two objects, ``b`` one, and ``c`` none that provides kinds."""
    manager = PluginManager()
    for name, kinds in (("a", [1]), ("a.more", [2]), ("b", [3]), ("c", [])):
        manager.register(provides_kinds(*kinds), name=name, origin="nodeagent")
    return manager


def test_provider_hook_is_called_on_the_objects_of_one_plugin():
    manager = with_kinds()

    results = {plugin: manager.provide_from(plugin, KINDS, context=None) for plugin in "abcd"}

    found = {plugin: [(result.plugin, result.value) for result in each] for plugin, each in results.items()}
    assert found == {"a": [("a", [1]), ("a.more", [2])], "b": [("b", [3])], "c": [], "d": []}


def test_provided_objects_are_those_of_a_plugin_and_a_hook():
    manager = with_kinds()
    manager.provide_all(KINDS, context=None)

    assert [manager.provided(plugin, KINDS) for plugin in "abcd"] == [[1, 2], [3], [], []]
    assert manager.provided("a", "nodeagent_provide_pod_sources") == []


def test_withdrawn_plugin_can_be_restored_with_its_provided_objects():
    manager = with_kinds()
    manager.provide_all(KINDS, context=None)

    withdrawn = manager.withdraw("a", "disabled")
    states = [(info.name, info.state, info.hooks) for info in manager.plugins()]
    provided = [manager.provided(plugin, KINDS) for plugin in "ab"]
    manager.restore("a", withdrawn)

    assert states == [("a", "disabled", ()), ("b", "loaded", (KINDS,)), ("c", "loaded", (KINDS,))]
    assert provided == [[], [3]]
    assert [info.name for info in manager.plugins() if info.state == "loaded"] == ["a", "a.more", "b", "c"]
    assert manager.provided("a", KINDS) == [1, 2]


async def test_withdrawn_plugin_is_not_called_by_a_call_in_progress():
    manager, order = PluginManager(), []

    class Withdraws:
        @hookimpl
        async def nodeagent_admit_pod(self):
            manager.withdraw("b", "disabled")

    manager.register(Withdraws(), name="a")
    for name in ("b", "b.more", "c"):
        manager.register(admits(order=order, name=name), name=name)

    assert await manager.call_first("nodeagent_admit_pod", pod=None, active=()) is None
    assert order == ["c"]


async def test_failures_outside_of_calls_count_for_the_quarantine():
    manager = PluginManager()
    manager.register(admits(Rejection("No", "because")), name="slow")
    manager.contain(QuarantinePolicy(failures=2, retry_seconds=60))
    manager.record_failure("unknown", "blocked the event loop")

    for _ in range(2):
        assert await manager.call_first("nodeagent_admit_pod", pod=None, active=()) is not None
        manager.record_failure("slow", "blocked the event loop")
    assert await manager.call_first("nodeagent_admit_pod", pod=None, active=()) is None
    assert "blocked the event loop" in manager.calls.quarantines["slow"].last_error
    assert list(manager.calls.quarantines) == ["slow"]

    manager.record_recovery("slow")
    assert await manager.call_first("nodeagent_admit_pod", pod=None, active=()) is not None


def test_recovery_may_report_the_version_of_the_plugin():
    manager = PluginManager()
    manager.register(admits(), name="a", version="1.0")
    for version, expected in (("", "1.0"), ("2.0", "2.0")):
        manager.record_recovery("a", version=version)
        manager.record_recovery("unknown", version=version)

        assert [(info.name, info.version) for info in manager.plugins()] == [("a", expected)]


def test_only_listed_plugins_are_listed_as_required():
    manager = PluginManager()
    for name, origin in (("own", "nodeagent"), ("listed", ""), ("other", "")):
        manager.register(admits(), name=name, origin=origin)
    manager.contain(QuarantinePolicy(), ["listed", "later"], declared={"later"})

    names = ["own", "listed", "listed.part", "other"]
    assert [name for name in names if manager.is_listed_as_required(name)] == ["listed"]
    assert [name for name in names if manager.is_required(name)] == ["own", "listed", "listed.part"]


def test_hook_is_implemented_by_all_or_only_by_third_party_plugins():
    manager = PluginManager()
    hook = "nodeagent_admit_pod"

    def found():
        return (
            manager.is_implemented(hook),
            manager.is_implemented(hook, third_party=True),
            manager.is_implemented(hook, without="active"),
            manager.is_implemented(hook, without="pod"),
            manager.is_implemented(hook, without="active", third_party=True),
        )

    assert found() == (False, False, False, False, False)
    manager.register(admits(), name="own", origin="nodeagent")
    assert found() == (True, False, False, False, False)
    manager.register(admits(), name="other", origin="elsewhere")
    assert found() == (True, True, True, False, True)


class WithoutPods:
    """A plugin that needs only the active pods."""

    def __init__(self, order, name):
        self.order, self.name = order, name

    @hookimpl
    async def nodeagent_admit_pod(self, active):
        self.order.append(self.name)


@pytest.mark.parametrize(
    ("selection", "called"),
    [
        ({}, ["own", "all", "some"]),
        ({"without": "pod"}, ["some"]),
        ({"accepting": "pod"}, ["own", "all"]),
        ({"without": "active"}, ["all"]),
        ({"accepting": "active"}, ["own", "some"]),
    ],
)
async def test_call_is_limited_to_plugins_that_accept_an_argument_or_not(selection, called):
    manager, order = PluginManager(), []
    manager.register(WithoutPods(order, "own"), name="own", origin="nodeagent")
    manager.register(admits(order=order, name="all"), name="all")
    manager.register(WithoutPods(order, "some"), name="some")

    await manager.call_first("nodeagent_admit_pod", pod=None, active=(), **selection)

    assert order == called


# --- decisions ------------------------------------------------------------------------------------------------


class Renames:
    @hookimpl
    async def nodeagent_mutate_sandbox(self, sandbox):
        return replace(sandbox, hostname="y")


@pytest.mark.parametrize(("changes", "text"), [("", "changed the sandbox"), ("hostname", "changed the hostname")])
async def test_change_is_a_decision_about_the_pod(changes, text):
    manager, decided = PluginManager(), []
    manager.on_decision = lambda decision, pod: decided.append((decision.plugin, decision.verdict, pod.metadata.name))
    manager.register(Renames(), name="own", origin="nodeagent")
    manager.register(Renames(), name="a")
    pod = make_pod("web")

    for _ in range(2):
        await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", SANDBOX, pod=pod, changes=changes)
    assert [(d.plugin, d.subject, d.verdict, d.count) for d in manager.decisions] == [
        ("own", "default/web", text, 2)
    ], "the value of the second plugin has not changed"
    assert decided == []

    manager.withdraw("own", "disabled")
    await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", SANDBOX, pod=pod, changes=changes)
    assert decided == [("a", text, "web")]


async def test_change_without_a_pod_has_the_name_of_its_value():
    manager = PluginManager()
    manager.register(Renames(), name="a")

    await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", SANDBOX, pod=None)

    assert [d.subject for d in manager.decisions] == ["sandbox"]


async def test_pod_decided_on_without_a_quarantined_plugin_is_reported_once():
    manager, skips = broken(), []
    manager.on_skip = lambda plugin, hook, pod: skips.append((plugin, hook, pod.metadata.name))
    await fail(manager, 2)
    for subject in (make_pod("web"), None, make_pod("web")):
        await manager.call_first("nodeagent_admit_pod", pod=subject, active=())

    assert skips == [("bad", "nodeagent_admit_pod", "web")]


async def test_call_in_progress_has_the_pod_as_its_subject():
    manager, subjects = PluginManager(), []

    class Receives:
        @hookimpl
        async def nodeagent_pod_terminated(self, pod):
            subjects.append([call.subject for call in manager.calls.in_flight])

    manager.register(Receives(), name="a")
    for pod in (make_pod("web"), "other"):
        await manager.notify("nodeagent_pod_terminated", pod=pod)

    assert subjects == [["default/web"], [""]]


def test_provider_is_a_decision_about_the_agent():
    class Provides:
        @hookimpl
        def nodeagent_provide_runtime(self):
            return 7

    manager = PluginManager()
    assert manager.provide_optional("nodeagent_provide_runtime", context=None) is None
    manager.register(Provides(), name="a")
    assert manager.provide_optional("nodeagent_provide_runtime", context=None) == 7
    assert [(d.plugin, d.subject, d.verdict) for d in manager.decisions] == [("a", "agent", "int")]
