"""Tests for single admission plugins: quantities, rates, tolerations, taints, configuration."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.config import AdmissionError
from apiserver_stub.admission.plugins.default_toleration_seconds import DefaultTolerationSeconds
from apiserver_stub.admission.plugins.deny_service_external_ips import DenyServiceExternalIPs
from apiserver_stub.admission.plugins.event_rate_limit import EventRateLimit
from apiserver_stub.admission.plugins.image_policy_webhook import read_config
from apiserver_stub.admission.plugins.limit_ranger import _check_pod
from apiserver_stub.admission.plugins.pod_node_selector import PodNodeSelector
from apiserver_stub.admission.plugins.pod_security import PodSecurity
from apiserver_stub.admission.plugins.pod_toleration_restriction import PodTolerationRestriction
from apiserver_stub.admission.plugins.priority import Priority
from apiserver_stub.admission.quota.usage import concerned, in_scope, not_given, usage
from apiserver_stub.admission.tolerations import covers, merged
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.node_taints import wanted_taints
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.plugin_discovery import discover_plugins

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
EVENTS = Resource("", "v1", "Event", "events")


def test_all_specified_plugins_are_registered():
    discovered = discover_plugins()
    available, on = list(discovered.plugins), discovered.enabled_by_default

    assert discovered.errors == ()
    assert (len(available), len(on)) == (36, 20)
    assert parse([]).admission_plugins == on
    assert parse([f"--enable-admission-plugins={','.join(available)}"]).admission_plugins == available


@pytest.mark.parametrize(
    ("name", "default"),
    [
        pytest.param(name, default, id=name, marks=pytest.mark.row(f"admission.{name}"))
        for names, default in ((ON, True), (OFF, False))
        for name in names
    ],
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


async def test_default_toleration_seconds_are_configurable(call):
    options = parse(["--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=-1"])
    plugin = DefaultTolerationSeconds(
        options.default_not_ready_toleration_seconds, options.default_unreachable_toleration_seconds
    )
    requested = call({"spec": {"tolerations": None}})

    await plugin.admit(requested)

    assert [item["tolerationSeconds"] for item in requested.new["spec"]["tolerations"]] == [7, -1]


@pytest.mark.row("admission.EventRateLimit")
async def test_event_rate_limit_buckets_refill(call, clock):
    limit = {"type": "User", "qps": 2, "burst": 2}
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = EventRateLimit({**head, "limits": [limit]}, clock)

    for user in ("a", "a", "b"):
        await plugin.validate(call({}, resource=EVENTS, user=user))
    with pytest.raises(ApiError, match="limit reached on type User for key a") as error:
        await plugin.validate(call({}, resource=EVENTS, user="a"))
    await plugin.validate(call({}, resource=EVENTS, user="a", dry_run=True))
    await clock.advance(0.5)
    await plugin.validate(call({}, resource=EVENTS, user="a"))

    assert (error.value.code, error.value.details) == (429, None)  # Clients do not retry without Retry-After.


def test_invalid_event_rate_limits_are_rejected(clock):
    head = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}

    with pytest.raises(AdmissionError, match="must not be empty"):
        EventRateLimit({}, clock)
    with pytest.raises(AdmissionError) as error:
        EventRateLimit({**head, "limits": [{"type": "Moon", "qps": 0, "burst": -1}]}, clock)
    assert [problem.partition(": ")[2] for problem in error.value.problems] == [
        'limits[0].type: Unsupported value: "Moon": supported values: "Namespace", "Server", "SourceAndObject", "User"',
        "limits[0].burst: Invalid value: -1: must be positive",
        "limits[0].qps: Invalid value: 0: must be positive",
    ]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: PodNodeSelector(None, {"podNodeSelectorPluginConfig": {"a": "b"}}), "invalid selector"),
        (lambda: PodNodeSelector(None, {"other": {}}), 'unknown field "other"'),
        (lambda: PodTolerationRestriction(None, {"kind": "X"}), 'no kind "X"'),
        (lambda: PodSecurity(None, {"kind": "X"}), "PodSecurityConfiguration"),
        (lambda: read_config({}, None), "no config specified"),
        (lambda: read_config({"imagePolicy": {"kubeConfigFile": "k", "allowTTL": 9999}}, None), "between 1 and 1800"),
    ],
)
def test_invalid_plugin_configuration_prevents_start(make, problem):
    with pytest.raises(AdmissionError, match=problem):
        make()


class Plain:
    """Lister of a namespace without annotations."""

    def namespace(self, name):
        return {"metadata": {"name": name}}


@pytest.mark.row("admission.DenyServiceExternalIPs")
async def test_existing_external_ips_are_kept_and_new_ones_rejected(call):
    services = Resource("", "v1", "Service", "services")
    admission = AdmissionChain([DenyServiceExternalIPs()])
    old, new, less = ({"metadata": {"name": "s"}, "spec": {"externalIPs": list(ips)}} for ips in ("ab", "abc", "a"))

    for kept in (old, less):
        await admission.check(call(kept, old, operation="UPDATE", resource=services))
    with pytest.raises(ApiError, match="Use of external IPs is denied by admission control"):
        await admission.check(call(new, old, operation="UPDATE", resource=services))


@pytest.mark.row("admission.PodNodeSelector")
async def test_node_selector_must_be_in_the_whitelist_of_the_namespace(call):
    selectors = {"clusterDefaultNodeSelector": "pool=shared", "default": "pool=shared,zone=a"}
    admission = AdmissionChain([PodNodeSelector(Plain(), {"podNodeSelectorPluginConfig": selectors})])
    allowed, rejection = ({"metadata": {"name": "p"}, "spec": {"nodeSelector": {"zone": zone}}} for zone in "ab")

    await admission.check(call(allowed))
    with pytest.raises(ApiError) as error:
        await admission.check(call(rejection))

    assert allowed["spec"]["nodeSelector"] == {"pool": "shared", "zone": "a"}
    assert error.value.code == 403
    assert error.value.message.endswith("pod node label selector labels conflict with its namespace whitelist")


@pytest.mark.row("admission.PodTolerationRestriction")
async def test_tolerations_must_be_in_the_cluster_whitelist(call):
    head = {"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    memory = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    admission = AdmissionChain([PodTolerationRestriction(Plain(), {**head, "whitelist": [memory]})])
    burstable = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    plain = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    requesting = {"metadata": {"name": "p"}, "spec": {"containers": [burstable]}}
    eager = {"metadata": {"name": "p"}, "spec": {"containers": [burstable], "tolerations": [gpu]}}

    await admission.check(call(plain))
    await admission.check(call(requesting))
    with pytest.raises(ApiError) as error:
        await admission.check(call(eager))

    assert "tolerations" not in plain["spec"]
    assert requesting["spec"]["tolerations"] == [memory]
    assert error.value.code == 403
    assert error.value.message.endswith("conflict with its cluster whitelist")


@pytest.mark.row("admission.Priority")
async def test_update_without_priority_keeps_the_priority(call):
    old = {"metadata": {"name": "p"}, "spec": {"priority": 7, "preemptionPolicy": "Never"}}
    new = {"metadata": {"name": "p"}, "spec": {}}

    await AdmissionChain([Priority(Plain())]).check(call(new, old, operation="UPDATE"))

    assert new["spec"] == old["spec"]


def test_toleration_covers_equal_or_narrower_tolerations():
    everything, team = {"operator": "Exists"}, {"key": "team", "value": "a", "effect": "NoSchedule"}
    short = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

    assert covers(everything, team)
    assert not covers(team, everything)
    assert not covers(short, {**short, "tolerationSeconds": 6})
    assert not covers(short, {"key": "k", "operator": "Exists", "effect": "NoExecute"})
    assert merged([team, short], [everything, team]) == [everything]
    assert merged([team], [team]) == [team]


def test_limit_request_ratio_is_enforced():
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}}}
    limits = [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"cpu": "200m"}}]

    assert list(_check_pod({"containers": [container]}, limits)) == [
        "minimum cpu usage per Container is 200m, but request is 100m",
        "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000",
    ]


def test_quota_usage_of_objects():
    init = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}
    pod = {"spec": {"containers": [container], "initContainers": [init], "overhead": {"cpu": "100m"}}}
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}
    service = {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}

    found = {name: str(amount) for name, amount in usage("pods", pod).items()}
    stored = {name: str(amount) for name, amount in usage("persistentvolumeclaims", claim).items()}
    served = {name: str(amount) for name, amount in usage("services", service).items()}

    expected = {"cpu": "2100m", "requests.cpu": "2100m", "limits.memory": "1Gi", "pods": "1", "count/pods": "1"}
    assert found == expected
    assert stored["fast.storageclass.storage.k8s.io/requests.storage"] == "1Gi"
    assert (served["services.nodeports"], served["services.loadbalancers"]) == ("2", "1")
    assert usage("pods", {**pod, "status": {"phase": "Failed"}}).keys() == {"count/pods"}
    assert not_given(pod, ["cpu", "limits.memory"]) == "must specify limits.memory for: i"


def test_quotas_match_kinds_and_scopes():
    pod = {"spec": {"containers": [], "priorityClassName": "high", "activeDeadlineSeconds": 5}}
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}

    assert concerned("pods", ["pods", "services", "requests.example.com/gpu", "count/pods"]) == {
        "pods",
        "requests.example.com/gpu",
        "count/pods",
    }
    assert in_scope("pods", pod, high)
    assert in_scope("pods", pod, {"scopeName": "Terminating"})
    assert in_scope("pods", pod, {"scopeName": "BestEffort"})
    assert not in_scope("pods", pod, {**high, "values": ["low"]})
    assert not in_scope("services", {}, {"scopeName": "BestEffort"})


def test_taints_follow_node_conditions():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    own = {"key": "mine", "effect": "NoSchedule"}
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

    assert wanted_taints({"spec": {"taints": [own, not_ready]}, "status": ready}) == [own]
    assert wanted_taints({"spec": {"taints": [own]}, "status": ready}) is None
    assert wanted_taints({}) == [not_ready]
    cordoned = wanted_taints({"spec": {"unschedulable": True}, "status": ready})
    assert cordoned == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
