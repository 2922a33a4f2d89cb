"""Tests for the command line: parsing of flags, settings and overrides."""

from __future__ import annotations

import socket

import pytest

from nodeagent.base.duration import Duration
from nodeagent.config.fields import all_fields
from nodeagent.config.flags import FlagParser, add_flags, field_flags, parse
from nodeagent.config.load import load_configuration
from nodeagent.contracts.configuration import MemoryReservation, Taint, VModuleItem
from nodeagent.errors import ConfigError

ENDPOINT = "--container-runtime-endpoint=unix:///x"


def config_of(*flags):
    return load_configuration([ENDPOINT, *flags]).config


def settings_of(*flags):
    flags = parse(flags)
    assert not flags.problems
    return flags.settings


def problems_of(*flags):
    return [(problem.source, problem.rule) for problem in parse(flags).problems]


def test_every_scalar_field_has_a_flag():
    with_flag = {flag.path for flag in field_flags().values()}
    without = {path for path in all_fields() if "[]" not in path} - with_flag

    assert without == {
        "authentication",
        "authentication.x509",
        "authentication.webhook",
        "authentication.anonymous",
        "authorization",
        "authorization.webhook",
        "logging",
        "logging.options",
        "logging.options.json",
        "memorySwap",
        "shutdownGracePeriodByPodPriority",
        "tracing",
        "containerLogMaxWorkers",
        "containerLogMonitorInterval",
        "crashLoopBackOff",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "imagePullCredentialsVerificationPolicy",
        "logging.options.text",
        "memoryReservationPolicy",
        "mergeDefaultEvictionSettings",
        "podLogsDir",
        "preloadedImagesVerificationAllowlist",
        "singleProcessOOMKill",
        "tlsCurvePreferences",
        "userNamespaces",
        "userNamespaces.idsPerPod",
    }


@pytest.mark.parametrize(
    ("flag", "attribute", "value"),
    [
        ("--pod-manifest-path=/p", "static_pod_path", "/p"),
        ("--manifest-url=http://x", "static_pod_url", "http://x"),
        ("--registry-qps=3", "registry_pull_qps", 3),
        ("--event-qps=0", "event_record_qps", 0),
        ("--minimum-image-ttl-duration=3m", "image_minimum_gc_age", Duration.of(minutes=3)),
        ("--image-gc-high-threshold=90", "image_gc_high_threshold_percent", 90),
        ("--image-gc-low-threshold=10", "image_gc_low_threshold_percent", 10),
        ("--pod-max-pids=100", "pod_pids_limit", 100),
        ("--reserved-cpus=0-1", "reserved_system_cpus", "0-1"),
        ("--kube-api-content-type=application/json", "content_type", "application/json"),
        ("--platform-api-content-type=application/json", "content_type", "application/json"),
        ("--kube-api-qps=9", "platform_api_qps", 9),
        ("--platform-api-burst=9", "platform_api_burst", 9),
        ("--kube-reserved=cpu=1,memory=1Gi", "platform_reserved", {"cpu": "1", "memory": "1Gi"}),
        ("--kubelet-cgroups=/a", "nodeagent_cgroups", "/a"),
        ("--runonce", "run_once", True),
        ("--resolv-conf=", "resolv_conf", ""),
        ("--rotate-server-certificates", "server_tls_bootstrap", True),
        ("--contention-profiling=true", "enable_contention_profiling", True),
        ("--cpu-cfs-quota=false", "cpu_cfs_quota", False),
        ("--max_pods=5", "max_pods", 5),
        ("--node-status-max-images=-1", "node_status_max_images", -1),
        ("--memory-throttling-factor=0.5", "memory_throttling_factor", 0.5),
        ("--cluster-dns=10.0.0.1,10.0.0.2", "cluster_dns", ("10.0.0.1", "10.0.0.2")),
        ("--enforce-node-allocatable=", "enforce_node_allocatable", ()),
        ("--eviction-hard=memory.available<1Gi,nodefs.available<5%", "eviction_hard", {
            "memory.available": "1Gi", "nodefs.available": "5%"}),
        ("--eviction-hard=", "eviction_hard", {}),
        ("--eviction-minimum-reclaim=nodefs.available=1Gi", "eviction_minimum_reclaim", {"nodefs.available": "1Gi"}),
        ("--register-with-taints=a=b:NoSchedule,c:NoExecute", "register_with_taints", (
            Taint(key="a", value="b", effect="NoSchedule"), Taint(key="c", effect="NoExecute"))),
        ("--provider-id=x://y", "provider_id", "x://y"),
    ],
)  # fmt: skip
def test_flag_sets_its_field(flag, attribute, value):
    flags = ["--cgroups-per-qos=false"] if attribute == "enforce_node_allocatable" else []

    assert getattr(config_of(flag, *flags), attribute) == value


def test_flags_set_nested_fields():
    config = config_of(
        "--anonymous-auth",
        "--authentication-token-webhook=false",
        "--authentication-token-webhook-cache-ttl=1m",
        "--client-ca-file=/ca",
        "--authorization-mode=AlwaysAllow",
        "--authorization-webhook-cache-authorized-ttl=2m",
        "--authorization-webhook-cache-unauthorized-ttl=3s",
        "-v=4",
        "--vmodule=pod*=5,gc=2",
        "--log-flush-frequency=1s",
        "--manifest-url=http://x",
        "--manifest-url-header=A:b,A:c,D:e:f",
    )

    assert config.authentication.anonymous.enabled
    assert not config.authentication.webhook.enabled
    assert str(config.authentication.webhook.cache_ttl) == "1m0s"
    assert config.authentication.x509.client_ca_file == "/ca"
    assert config.authorization.mode == "AlwaysAllow"
    assert str(config.authorization.webhook.cache_authorized_ttl) == "2m0s"
    assert str(config.authorization.webhook.cache_unauthorized_ttl) == "3s"
    assert config.logging.verbosity == 4
    assert config.logging.vmodule == (
        VModuleItem(file_pattern="pod*", verbosity=5),
        VModuleItem(file_pattern="gc", verbosity=2),
    )
    assert str(config.logging.flush_frequency.duration) == "1s"
    assert config.static_pod_url_header == {"A": ("b", "c"), "D": ("e:f",)}


def test_reserved_memory_is_parsed():
    flags = ["--reserved-memory=0:memory=1Gi,hugepages-2M=2Gi;1:memory=1Gi"]
    config = config_of(*flags)

    assert [(item.numa_node, {kind: str(amount) for kind, amount in item.limits.items()})
            for item in config.reserved_memory] == [
        (0, {"memory": "1Gi", "hugepages-2M": "2Gi"}),
        (1, {"memory": "1Gi"}),
    ]  # fmt: skip
    assert isinstance(config.reserved_memory[0], MemoryReservation)


def test_flag_accepts_the_kubelet_name_of_an_enforcement():
    config = config_of("--enforce-node-allocatable=pods,kube-reserved", "--kube-reserved-cgroup=/platform")
    assert config.enforce_node_allocatable == ("pods", "platform-reserved")


@pytest.mark.parametrize("form", [["-v3"], ["-v", "3"], ["--v=3"], ["-v=3"]])
def test_verbosity_is_accepted_in_every_form(form):
    assert config_of(*form).logging.verbosity == 3


def test_last_repeated_scalar_is_effective_and_maps_accumulate():
    config = config_of("--max-pods=1", "--max-pods=2", "--system-reserved=cpu=1", "--system-reserved=memory=1Gi")

    assert config.max_pods == 2
    assert config.system_reserved == {"cpu": "1", "memory": "1Gi"}


def test_seccomp_default_flag_cannot_disable(load_text):
    assert load_text("seccompDefault: true", "--seccomp-default=false").config.seccomp_default
    assert load_text("", "--seccomp-default").config.seccomp_default


def test_boolean_flag_does_not_consume_the_next_argument():
    assert problems_of("--enable-server", "false") == [("command line", "is an unexpected argument")]


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("--enable-server=maybe", "must be true or false"),
        ("--max-pods=1.5", "must be an integer"),
        ("--memory-throttling-factor=x", "must be a number"),
        ("--system-reserved=cpu", "has the item 'cpu', must be KEY=VALUE"),
        ("--eviction-hard=memory.available=1", "has the item 'memory.available=1', must be KEY<VALUE"),
        ("--feature-gates=A", "has the item 'A', must be NAME=true or NAME=false"),
        ("--register-with-taints=a", "has the item 'a', must be KEY=VALUE:EFFECT"),
        ("--manifest-url-header=a", "has an item that is not NAME:VALUE"),
        ("--reserved-memory=1Gi", "has the item '1Gi', must be NODE:TYPE=AMOUNT,…"),
        ("--node-ip=1.2.3.4,1.2.3.5", "must be one IP address, or one per family"),
        ("--node-ip=224.0.0.1", "must not be a multicast address"),
        ("--node-ip=0.0.0.0,::1", "must not be unspecified if there are two"),
        ("--root-dir=/var/lib/../x", "must be an absolute path in canonical form"),
        ("--root-dir=var", "must be an absolute path in canonical form"),
        ("--cloud-provider=aws", "must be empty or external"),
        ("--hostname-override=a_b", "must be a DNS name in lower case"),
        ("--node-labels=kubernetes.io/role=x", "must not be set by a node below kubernetes.io or k8s.io"),
        ("--node-labels=node-restriction.kubernetes.io/a=x", "must not be set by a node below kubernetes.io or k8s.io"),
        ("--node-labels=-a=x", "must have keys that are qualified names"),
        ("--node-labels=a=x y", "must have a label value for a"),
        ("--minimum-container-ttl-duration=5", "is not a duration such as 20s, 100ms or 1h30m"),
        ("--api-domain=", "must not be empty"),
        ("--exit-on-lock-contention", "needs --lock-file"),
        ("--image-credential-provider-config=/x", "needs --image-credential-provider-bin-dir"),
        ("--image-credential-provider-bin-dir=/x", "needs --image-credential-provider-config"),
    ],
)
def test_invalid_flag_is_reported_with_its_name(flag, rule):
    assert problems_of(flag) == [(flag.partition("=")[0], rule)]


@pytest.mark.parametrize(
    ("key", "permitted"),
    [
        ("role", True),
        ("example.com/role", True),
        ("notkubernetes.io/role", True),
        ("kubernetes.io/hostname", True),
        ("kubernetes.io/role", False),
        ("k8s.io/role", False),
        ("x.k8s.io/arch", False),
        ("kubelet.kubernetes.io/role", True),
        ("pool.node.kubernetes.io/role", True),
        ("mynode.kubernetes.io/role", False),
        ("node-role.kubernetes.io/worker", False),
        ("beta.kubernetes.io/instance-type", True),
        ("beta.kubernetes.io/hostname", False),
        ("topology.kubernetes.io/region", True),
        ("topology.kubernetes.io/rack", False),
        ("failure-domain.beta.kubernetes.io/zone", True),
    ],
)
def test_node_sets_only_permitted_labels_of_kubernetes(key, permitted):
    rules = [rule for _, rule in problems_of(f"--node-labels={key}=x")]
    assert rules == ([] if permitted else ["must not be set by a node below kubernetes.io or k8s.io"])


def test_node_flags_set_settings():
    settings = settings_of(
        "--kubeconfig=/k",
        "--hostname-override=Node-1",
        "--node-ip=10.0.0.1,fd00::1",
        "--node-labels=a=b,node.kubernetes.io/pool=x,topology.kubernetes.io/zone=z",
        "--root-dir=/data",
        "--cert-dir=/certs",
        "--disable-plugin=a",
        "--disable-plugin=b",
        "--register-schedulable=false",
        "--plugin-config=/p",
    )

    assert settings.kubeconfig == "/k"
    assert not settings.standalone
    assert settings.node_name == "node-1"
    assert settings.node_ips == ("10.0.0.1", "fd00::1")
    assert settings.node_labels == {"a": "b", "node.kubernetes.io/pool": "x", "topology.kubernetes.io/zone": "z"}
    assert (settings.root_dir, settings.cert_dir) == ("/data", "/certs")
    assert settings.disabled_plugins == ("a", "b")
    assert not settings.register_schedulable
    assert settings.plugin_config == "/p"


def test_without_flags_the_node_has_the_host_name_and_is_standalone(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Host-7.Example")

    settings = settings_of()

    assert settings.node_name == "host-7.example"
    assert settings.standalone
    assert (settings.root_dir, settings.cert_dir) == ("/var/lib/kubelet", "/var/lib/kubelet/pki")
    assert settings.register_schedulable


def test_identity_flags_set_the_identity():
    settings = settings_of("--api-domain=example.com", "--system-namespace=system")

    assert settings.identity.api_domain == "example.com"
    assert settings.identity.system_namespace == "system"
    assert settings.identity.node_lease_namespace == "kube-node-lease"


def test_deprecated_flags_cause_a_warning():
    warnings = parse(["--max-pods=1", "-v=2", "--provider-id=x", "--kubeconfig=/k"]).warnings

    assert warnings == ["deprecated flags, set the field in the configuration file: --max-pods (maxPods)"]


def test_unknown_arguments_are_rejected_with_the_nearest_flag():
    assert problems_of("--max-podz=1", "--zzzzzzz") == [
        ("command line", "is not a known flag; did you mean --max-pods?"),
        ("command line", "is not a known flag"),
    ]


@pytest.mark.parametrize(("flag", "printed"), [("--version", "nodeagent 0.1.0\n"), ("--version=raw", "0.1.0\n")])
def test_version_is_printed(capsys, flag, printed):
    with pytest.raises(SystemExit) as caught:
        load_configuration([flag])

    assert caught.value.code == 0
    assert capsys.readouterr().out == printed


def test_rule_violation_names_the_flag():
    with pytest.raises(ConfigError) as caught:
        config_of("--max-pods=-1")

    assert str(caught.value) == "--max-pods: maxPods: -1 must not be negative"


def test_invalid_value_is_shown_except_for_headers():
    def shown(flag):
        [problem] = parse([flag]).problems
        return problem.value

    assert shown("--max-pods=many") == "many"
    assert shown("--manifest-url-header=secret") is None


def test_flags_of_fields_are_documented_apart_from_logging():
    parser = FlagParser(prog="nodeagent")
    add_flags(parser)

    groups = {
        group.title: {name for each in group._group_actions for name in each.option_strings}
        for group in parser._action_groups
    }

    assert "--v" in groups["logging"] and "--v" not in groups["configuration fields"]
    assert "--max-pods" in groups["configuration fields"] and "--max-pods" not in groups["logging"]
