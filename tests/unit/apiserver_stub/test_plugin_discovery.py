"""Tests for the discovery of admission plugins: bundled modules, entry points and invalid declarations."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from apiserver_stub import hookimpl
from apiserver_stub.__main__ import EXIT_USAGE, main
from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission import plugins as bundled
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.plugin_discovery import arrange, discover_plugins
from apiserver_stub.plugins import GROUP, load_plugins

UPSTREAM_ORDER = [
    "AlwaysAdmit",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NamespaceExists",
    "SecurityContextDeny",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "ServiceAccount",
    "NodeRestriction",
    "TaintNodesByCondition",
    "AlwaysPullImages",
    "ImagePolicyWebhook",
    "PodSecurity",
    "PodNodeSelector",
    "Priority",
    "DefaultTolerationSeconds",
    "PodTolerationRestriction",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "PersistentVolumeLabel",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "PodTopologyLabels",
    "NodeDeclaredFeatureValidator",
    "PodResizeValidator",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
    "AlwaysDeny",
]
MODULE = """
from apiserver_stub.admission import AdmissionPlugin


class RequireTeam(AdmissionPlugin):
    name = "RequireTeam"
    order = 650
    enabled_by_default = True
"""


class First(AdmissionPlugin):
    name = "First"
    order = 50
    enabled_by_default = False


class Undeclared(AdmissionPlugin):
    name = "Undeclared"
    enabled_by_default = True


class SameName(First):
    order = 60


@pytest.fixture
def rediscover(new_parsers):
    """Discover again in this test and after it."""
    for function in (discover_plugins, load_plugins):
        function.cache_clear()
    yield
    for function in (discover_plugins, load_plugins):
        function.cache_clear()


def provide(monkeypatch, *classes, error=None):
    """Install an entry point whose module provides *classes* or raises *error*."""
    module = ModuleType("example_admission")

    @hookimpl
    def nodeagent_apiserver_admission_plugins():
        if error is not None:
            raise error
        return classes

    module.nodeagent_apiserver_admission_plugins = nodeagent_apiserver_admission_plugins
    monkeypatch.setitem(sys.modules, module.__name__, module)
    install(monkeypatch, EntryPoint("example", module.__name__, GROUP))


def install(monkeypatch, entry_point):
    monkeypatch.setattr("apiserver_stub.plugins.entry_points", lambda group: [entry_point])


def test_bundled_plugins_are_called_in_upstream_order():
    assert list(discover_plugins().plugins) == UPSTREAM_ORDER
    assert discover_plugins().errors == ()


def test_each_module_defines_the_plugin_that_it_is_named_after():
    for name, plugin in discover_plugins().plugins.items():
        assert plugin.__module__.rpartition(".")[2].replace("_", "") == name.lower()


def test_added_module_is_available_without_another_change(tmp_path, monkeypatch, rediscover, capsys):
    (tmp_path / "require_team.py").write_text(MODULE)
    monkeypatch.setattr(bundled, "__path__", [*bundled.__path__, str(tmp_path)])

    names = parse([]).admission_plugins
    with pytest.raises(SystemExit):
        parse(["--help"])

    assert names[names.index("RequireTeam") - 1 : names.index("RequireTeam") + 2] == [
        "NamespaceLifecycle",
        "RequireTeam",
        "LimitRanger",
    ]
    assert "RequireTeam" in capsys.readouterr().out
    assert "RequireTeam" not in parse(["--disable-admission-plugins=RequireTeam"]).admission_plugins
    sys.modules.pop("apiserver_stub.admission.plugins.require_team")


def test_entry_point_provides_a_plugin_that_is_enabled_by_name(monkeypatch, rediscover):
    provide(monkeypatch, First)

    assert "First" not in parse([]).admission_plugins
    assert parse(["--enable-admission-plugins=First"]).admission_plugins[0] == "First"


def test_duplicate_name_is_a_usage_error_with_both_origins(monkeypatch, rediscover, capsys):
    provide(monkeypatch, First, SameName)

    assert main([]) == EXIT_USAGE
    assert capsys.readouterr().err == (
        'Error: admission plugin "First" of plugin example has the name of a plugin of plugin example\n'
    )


def test_bundled_name_is_not_available_to_third_parties(monkeypatch, rediscover):
    class Priority(First):
        name = "Priority"

    provide(monkeypatch, Priority)

    with pytest.raises(OptionsError) as error:
        parse([])
    assert error.value.problems == [
        'admission plugin "Priority" of plugin example has the name of a plugin of '
        "apiserver_stub.admission.plugins.priority"
    ]


def test_failing_hook_is_a_usage_error(monkeypatch, rediscover):
    provide(monkeypatch, error=RuntimeError("no license"))

    with pytest.raises(OptionsError) as error:
        parse([])
    assert error.value.problems == [
        "plugin example: nodeagent_apiserver_admission_plugins: RuntimeError: no license",
    ]


def test_missing_module_of_an_entry_point_is_a_usage_error(monkeypatch, rediscover):
    install(monkeypatch, EntryPoint("gone", "no_such_module_here", GROUP))

    with pytest.raises(OptionsError) as error:
        parse(["--enable-admission-plugins=Foo"])
    assert error.value.problems == [
        "plugin gone of no_such_module_here: ModuleNotFoundError: No module named 'no_such_module_here'",
        'enable-admission-plugins plugin "Foo" is unknown',
    ]


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Undeclared, "class attribute order must be set to a value of type int"),
        (AdmissionPlugin, "class attribute name must be set to a value of type str"),
        (int, "not a subclass of apiserver_stub.admission.AdmissionPlugin"),
    ],
)
def test_incomplete_declaration_is_an_error(plugin, problem):
    discovered = arrange([(plugin, "here")])

    assert discovered.plugins == {}
    assert discovered.errors == (f"invalid admission plugin '{plugin.__name__}' of here: {problem}",)
