"""Tests for ``--plugin-config``."""

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.settings_check import DeclaredPlugin, SettingsCheck, SettingsProblem
from nodeagent.errors import ConfigError
from nodeagent.plugin_containment import Containment, StallPolicy
from nodeagent.plugin_settings import load_plugin_config
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy


class Policy:
    @hookimpl
    def nodeagent_settings_schema(self):
        return {"type": "object", "properties": {"limit": {"type": "integer"}}}


@pytest.fixture
def plugins():
    manager = PluginManager()
    manager.register(Policy(), name="policy")
    return manager


def load(tmp_path, plugins, text):
    file = tmp_path / "plugins.yaml"
    file.write_text(text)
    return load_plugin_config(str(file), plugins)


def problems(tmp_path, plugins, text):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, plugins, text)
    return [(each.path, each.value, each.rule) for each in raised.value.problems]


def test_limits_default_without_a_file(plugins):
    assert load_plugin_config("", plugins).containment == Containment()


def test_limits_are_read_next_to_the_settings(tmp_path, plugins):
    config = load(
        tmp_path,
        plugins,
        """
        plugins: {policy: {limit: 3}}
        requiredPlugins: [policy]
        quarantine: {failures: 2, windowSeconds: 10, retrySeconds: 5, maxRetrySeconds: 20}
        stall: {reportSeconds: 0.5, interruptSeconds: 0, watchdogSeconds: 30}
        """,
    )

    assert config.settings == {"policy": {"limit": 3}}
    assert config.containment == Containment(("policy",), QuarantinePolicy(2, 10, 5, 20), StallPolicy(0.5, 0, 30))


def test_all_errors_are_reported_with_path_value_and_rule(tmp_path, plugins):
    found = problems(
        tmp_path,
        plugins,
        """
        requiredPlugins: [policy, missing]
        quarantine: {failures: 2.5, windowSeconds: 0, retrySeconds: 900, often: 1}
        stall: {interruptSeconds: 0.5, watchdogSeconds: soon}
        plugin: {}
        """,
    )

    assert found == [
        ("plugin", None, "unknown field; allowed are plugins, requiredPlugins, quarantine, stall"),
        ("requiredPlugins[1]", "missing", "plugin is not installed"),
        ("quarantine.failures", 2.5, "must be a whole number"),
        ("quarantine.windowSeconds", 0, "must be between 1 and 86400"),
        (
            "quarantine.often",
            None,
            "unknown field; allowed are failures, windowSeconds, retrySeconds, maxRetrySeconds",
        ),
        ("quarantine.maxRetrySeconds", 600.0, "must not be less than retrySeconds, 900"),
        ("stall.watchdogSeconds", "soon", "must be a number"),
        ("stall.interruptSeconds", 0.5, "must not be less than reportSeconds, 1"),
    ]


@pytest.mark.parametrize("text", ["requiredPlugins: policy", "quarantine: 5", "stall: [1]"])
def test_wrong_types_are_reported(tmp_path, plugins, text):
    ((path, _, rule),) = problems(tmp_path, plugins, text)

    assert path == text.partition(":")[0]
    assert rule.startswith("must be a")


def test_settings_of_a_plugin_that_failed_to_load_are_ignored(tmp_path, plugins):
    class Broken:
        @hookimpl
        def nodeagent_configure(self):
            raise OSError("boom")

    plugins.register(Broken(), name="broken")
    plugins.provide_all("nodeagent_configure", config=None, context=None, plugins=plugins)

    assert load(tmp_path, plugins, "plugins: {broken: {limit: 1}}").settings == {}


class Host:
    """Plugin that registers others as its settings specify."""

    @hookimpl
    def nodeagent_settings_schema(self):
        return {"type": "object"}

    @hookimpl
    def nodeagent_check_settings(self, settings):
        names = settings.get("host", {}).get("names", ())
        short = [SettingsProblem(f"names[{i}]", name, "is too short") for i, name in enumerate(names) if len(name) < 2]
        return SettingsCheck(short, [DeclaredPlugin(name, f"names[{i}]") for i, name in enumerate(names)])


def test_hook_check_settings(tmp_path, plugins):
    plugins.register(Host(), name="host")

    config = load(tmp_path, plugins, "{plugins: {host: {names: [shelf]}}, requiredPlugins: [shelf]}")
    plugins.contain(config.containment.quarantine, config.containment.required, config.declared)

    assert config.declared == {"shelf"}
    assert plugins.is_required("shelf")


def test_problems_of_checked_settings_have_paths_in_the_file(tmp_path, plugins):
    plugins.register(Host(), name="host")

    found = problems(tmp_path, plugins, "{plugins: {host: {names: [x, policy]}}, requiredPlugins: [missing]}")

    assert found == [
        ("plugins.host.names[0]", "x", "is too short"),
        ("plugins.host.names[1]", None, "has the name of another plugin, policy"),
        ("requiredPlugins[0]", "missing", "plugin is not installed"),
    ]
