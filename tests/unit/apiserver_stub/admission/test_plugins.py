"""Tests for the names, default states and configuration of admission plugins."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.plugins.image_policy_webhook import read_config
from apiserver_stub.admission.plugins.pod_node_selector import PodNodeSelector
from apiserver_stub.admission.plugins.pod_security import PodSecurity
from apiserver_stub.admission.plugins.pod_toleration_restriction import PodTolerationRestriction
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.plugin_discovery import discover_plugins
from nodeagent.base.identity import Identity

ON = (
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "ClusterTrustBundleAttest",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
LATER = ("PodTopologyLabels", "NodeDeclaredFeatureValidator", "PodResizeValidator", "MutatingAdmissionPolicy")
"""Plugins of later releases than that of the specification."""
OFF = (
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeLabel",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "SecurityContextDeny",
)


def test_all_specified_plugins_are_registered():
    discovered = discover_plugins()
    available, on = list(discovered.plugins), discovered.enabled_by_default

    assert discovered.errors == ()
    assert (len(available), len(on)) == (36 + len(LATER), 20 + len(LATER))
    assert parse([]).admission_plugins == on
    assert parse([f"--enable-admission-plugins={','.join(available)}"]).admission_plugins == available


@pytest.mark.parametrize(
    ("name", "default"),
    [
        pytest.param(name, default, id=name, marks=pytest.mark.row(f"admission.{name}"))
        for names, default in ((ON, True), (OFF, False))
        for name in names
    ]
    + [pytest.param(name, True, id=name) for name in LATER],
)
def test_plugins_have_their_default_state(name, default):
    assert (name in parse([]).admission_plugins) is default
    assert name in parse([f"--enable-admission-plugins={name}"]).admission_plugins
    assert name not in parse([f"--disable-admission-plugins={name}"]).admission_plugins


@pytest.mark.row("opt.enable-admission-plugins", "opt.disable-admission-plugins")
def test_plugins_are_enabled_and_disabled_by_name():
    options = parse(["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=Priority,LimitRanger"])

    assert options.admission_plugins[-1] == "AlwaysDeny"
    assert not {"Priority", "LimitRanger"} & set(options.admission_plugins)
    with pytest.raises(OptionsError) as error:
        parse(["--enable-admission-plugins=Foo,AlwaysAdmit", "--disable-admission-plugins=AlwaysAdmit,Bar"])
    assert error.value.problems == [
        'enable-admission-plugins plugin "Foo" is unknown',
        'disable-admission-plugins plugin "Bar" is unknown',
        "[AlwaysAdmit] in enable-admission-plugins and disable-admission-plugins overlapped",
    ]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: PodNodeSelector(None, {"podNodeSelectorPluginConfig": {"a": "b"}}, Identity()), "invalid selector"),
        (lambda: PodNodeSelector(None, {"other": {}}, Identity()), 'unknown field "other"'),
        (lambda: PodTolerationRestriction(None, {"kind": "X"}, Identity()), 'no kind "X"'),
        (lambda: PodSecurity(None, {"kind": "X"}, Identity()), "PodSecurityConfiguration"),
        (lambda: read_config({}, None), "no config specified"),
        (lambda: read_config({"imagePolicy": {"kubeConfigFile": "k", "allowTTL": 9999}}, None), "between 1 and 1800"),
    ],
)
def test_invalid_plugin_configuration_prevents_start(make, problem):
    with pytest.raises(AdmissionError, match=problem):
        make()
