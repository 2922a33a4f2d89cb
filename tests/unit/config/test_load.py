"""Tests for loading the configuration: files, drop-ins, flags, defaults and error reports."""

from __future__ import annotations

import pytest

from nodeagent.base.duration import Duration
from nodeagent.config.codec import decode, encode
from nodeagent.config.files import UnreadableFile, drop_ins, skipped_files
from nodeagent.config.load import load_configuration, masked
from nodeagent.contracts.configuration import LoggingConfiguration, NodeAgentConfiguration, TimeOrMetaDuration
from nodeagent.errors import ConfigError

NATIVE = "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
REFERENCE = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.row("flag.config")
def test_file_of_the_config_flag_is_loaded(native):
    first = native("maxPods: 7", name="one.yaml")
    native("maxPods: 8", name="two.yaml")

    assert load_configuration([f"--config={first}"]).config.max_pods == 7
    assert load_configuration(["--config", first]).settings.config == first


def test_without_a_file_flags_and_defaults_apply():
    loaded = load_configuration(["--container-runtime-endpoint=unix:///run/x.sock"])

    assert loaded.config == NodeAgentConfiguration(container_runtime_endpoint="unix:///run/x.sock")
    assert not loaded.config.authentication.anonymous.enabled


@pytest.mark.row("config.kind.NodeAgentConfiguration")
@pytest.mark.parametrize(
    ("header", "problems"),
    [
        ("maxPods: 1\n", ["kind: is missing", "apiVersion: is missing"]),
        ("kind: NodeAgentConfiguration\n", ["apiVersion: is missing"]),
        ("apiVersion: nodeagent.config.k8s.io/v1beta1\n", ["kind: is missing"]),
        ("apiVersion: nodeagent.config.k8s.io/v1\nkind: NodeAgentConfiguration\n", ["apiVersion: must be"]),
        ("apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: Pod\n", ["kind: must be"]),
        ("apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n", ["apiVersion: must be"]),
        ("apiVersion: [x]\nkind: 3\n", ["kind: must be", "apiVersion: must be"]),
    ],
)
def test_other_kind_or_version_is_rejected(rejected, header, problems):
    found = [f"{path}: {rule}" for path, rule in rejected("", header=header)]

    assert len(found) == len(problems)
    assert all(rule_text.startswith(expected) for rule_text, expected in zip(found, problems, strict=True)), found


@pytest.mark.row("config.kind.NodeAgentConfiguration")
def test_yaml_and_json_are_accepted(load_text):
    json_text = (
        '{"apiVersion": "nodeagent.config.k8s.io/v1beta1", "kind": "NodeAgentConfiguration",'
        ' "containerRuntimeEndpoint": "unix:///x", "maxPods": 5}'
    )

    assert load_text("maxPods: 5").config.max_pods == 5
    assert load_text(json_text, header="").config.max_pods == 5


def test_group_follows_the_api_domain(load_text, rejected):
    header = "apiVersion: nodeagent.config.example.com/v1beta1\nkind: NodeAgentConfiguration\n"
    endpoint = "containerRuntimeEndpoint: unix:///x\n"

    assert rejected(endpoint, header=header)
    loaded = load_text(endpoint, "--api-domain=example.com", "--media-domain=acme", header=header)

    assert loaded.settings.identity.api_domain == "example.com"
    assert loaded.config.content_type == "application/vnd.acme.protobuf"


def test_kubelet_configuration_is_translated(load_text):
    loaded = load_text(
        "kubeReserved: {cpu: 100m}\nkubeReservedCgroup: /p\nkubeAPIQPS: 1\nkubeAPIBurst: 2\nkubeletCgroups: /agent\n"
        "enforceNodeAllocatable: [pods, kube-reserved]\nfeatureGates: {RotateKubeletServerCertificate: false}\n",
        header=REFERENCE,
    )

    config = loaded.config
    assert config.platform_reserved == {"cpu": "100m"}
    assert config.platform_reserved_cgroup == "/p"
    assert (config.platform_api_qps, config.platform_api_burst) == (1, 2)
    assert config.nodeagent_cgroups == "/agent"
    assert config.enforce_node_allocatable == ("pods", "platform-reserved")
    assert not loaded.gates.enabled("RotateNodeAgentServerCertificate")


def test_kubelet_configuration_has_default_endpoint_and_unset_zeros(load_text):
    loaded = load_text(
        'containerRuntimeEndpoint: ""\nport: 0\nnodeLeaseDurationSeconds: 0\nmaxPods: 0\nsyncFrequency: 0s\n'
        'address: ""\nresolvConf: ""\nlogging: {format: "", flushFrequency: 0}\nmemorySwap: {}\n',
        header=REFERENCE,
    )

    assert loaded.config == NodeAgentConfiguration(
        container_runtime_endpoint="unix:///run/containerd/containerd.sock",
        resolv_conf="",
        volume_plugin_dir="/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    )
    assert any("containerRuntimeEndpoint is not set" in warning for warning in loaded.warnings)


def test_problems_of_a_kubelet_configuration_have_its_names(rejected):
    assert ("kubeAPIQPS", "must not be negative") in rejected("kubeAPIQPS: -1\n", header=REFERENCE)


def test_kubelet_name_in_a_native_file_is_rejected_with_a_hint(rejected):
    assert rejected("kubeReserved: {cpu: '1'}") == [
        ("kubeReserved", "is not a known field; did you mean platformReserved?")
    ]


def test_zero_duration_is_unset(load_text):
    config = load_text(
        "syncFrequency: 0s\nruntimeRequestTimeout: 0\nauthentication: {webhook: {cacheTTL: 0s}}\n"
        "imageMaximumGCAge: 0s\nlogging: {flushFrequency: 0}"
    ).config

    assert config == NodeAgentConfiguration(container_runtime_endpoint="unix:///run/test.sock")


@pytest.mark.parametrize("field", ["registryBurst", "eventBurst", "platformAPIBurst", "maxOpenFiles", "maxPods"])
def test_zero_without_a_meaning_is_unset(load_text, field):
    assert encode(load_text(f"{field}: 0").config)[field] == encode(NodeAgentConfiguration())[field]


@pytest.mark.parametrize(
    ("header", "warned"), [(f"{NATIVE}containerRuntimeEndpoint: unix:///x.sock\n", True), (REFERENCE, False)]
)
def test_unset_zero_is_warned_about_only_in_a_native_file(load_text, header, warned):
    warning = "maxPods: 0 means unset; the default 110 is used"

    assert (warning in load_text("maxPods: 0", header=header).warnings) is warned
    assert warning not in load_text("maxPods: 1", header=header).warnings


def test_kubelet_configuration_keeps_endpoint_and_plugin_directory(load_text):
    loaded = load_text("containerRuntimeEndpoint: unix:///x.sock\nvolumePluginDir: /plugins", header=REFERENCE)

    assert (loaded.config.container_runtime_endpoint, loaded.config.volume_plugin_dir) == ("unix:///x.sock", "/plugins")
    assert loaded.warnings == ()


def test_native_configuration_has_its_own_plugin_directory(load_text):
    assert load_text("").config.volume_plugin_dir == NodeAgentConfiguration().volume_plugin_dir


@pytest.mark.parametrize(("merge", "inodes"), [("true", "5%"), ("false", None)])
def test_default_thresholds_are_merged_on_request(load_text, merge, inodes):
    hard = load_text(
        f"mergeDefaultEvictionSettings: {merge}\nevictionHard: {{memory.available: 1Gi}}"
    ).config.eviction_hard

    assert (hard["memory.available"], hard.get("nodefs.inodesFree")) == ("1Gi", inodes)


@pytest.mark.parametrize(
    "field",
    ["registryPullQPS", "eventRecordQPS", "platformAPIQPS", "healthzPort", "nodeStatusMaxImages", "oomScoreAdj"],
)
def test_zero_with_a_meaning_is_kept(load_text, field):
    assert encode(load_text(f"{field}: 0").config)[field] == 0


def test_false_is_not_unset(load_text):
    config = load_text("enableServer: false\nfailSwapOn: false\nresolvConf: ''").config

    assert (config.enable_server, config.fail_swap_on, config.resolv_conf) == (False, False, "")


def test_report_frequency_defaults_to_the_update_frequency(load_text):
    def report(text, *flags):
        return str(load_text(text, *flags).config.node_status_report_frequency)

    assert report("") == "5m0s"
    assert report("nodeStatusUpdateFrequency: 30s") == "30s"
    assert report("", "--node-status-update-frequency=20s") == "20s"
    assert report("nodeStatusUpdateFrequency: 30s\nnodeStatusReportFrequency: 1m") == "1m0s"


def test_eviction_map_replaces_the_defaults(load_text):
    assert load_text("").config.eviction_hard["memory.available"] == "100Mi"
    assert load_text("evictionHard: {memory.available: 1Gi}").config.eviction_hard == {"memory.available": "1Gi"}
    assert load_text("evictionHard: {}").config.eviction_hard == {}


def test_paths_are_relative_to_the_directory_of_the_file(load_text, tmp_path):
    config = load_text(
        "staticPodPath: manifests\nauthentication: {x509: {clientCAFile: ../ca.crt}}\ntlsCertFile: tls/a.crt\n"
        "tlsPrivateKeyFile: /abs/a.key\nresolvConf: resolv\nvolumePluginDir: plugins",
        name="etc/node.yaml",
    ).config

    assert config.static_pod_path == f"{tmp_path}/etc/manifests"
    assert config.authentication.x509.client_ca_file == f"{tmp_path}/ca.crt"
    assert config.tls_cert_file == f"{tmp_path}/etc/tls/a.crt"
    assert config.tls_private_key_file == "/abs/a.key"
    assert config.resolv_conf == f"{tmp_path}/etc/resolv"
    assert config.volume_plugin_dir == f"{tmp_path}/etc/plugins"


def test_drop_ins_merge_in_name_order_and_flags_take_precedence(load_text, native, tmp_path):
    native(
        "maxPods: 20\nsystemReserved: {memory: 1Gi}\nstaticPodPath: pods",
        header=NATIVE,
        name="conf.d/10-first.conf",
    )
    native("maxPods: 30\nclusterDNS: [10.0.0.3]\npodsPerCore: null", header=NATIVE, name="conf.d/sub/20-second.conf")
    native("maxPods: 99", header=NATIVE, name="conf.d/ignored.yaml")
    text = (
        "maxPods: 10\nsystemReserved: {cpu: 100m}\nclusterDNS: [10.0.0.1, 10.0.0.2]\npodsPerCore: 4\n"
        "featureGates: {NodeSwap: true, MemoryQoS: true}"
    )

    loaded = load_text(text, f"--config-dir={tmp_path}/conf.d", "--event-burst=5", "--feature-gates=NodeSwap=false")

    config = loaded.config
    assert config.max_pods == 30
    assert config.system_reserved == {"cpu": "100m", "memory": "1Gi"}
    assert config.cluster_dns == ("10.0.0.3",)
    assert config.pods_per_core == 0
    assert config.static_pod_path == f"{tmp_path}/conf.d/pods"
    assert config.event_burst == 5
    assert config.feature_gates == {"NodeSwap": False, "MemoryQoS": True}
    described = loaded.provenance.describe
    assert described("maxPods") == f"drop-in {tmp_path}/conf.d/sub/20-second.conf:3"
    assert described("eventBurst") == "flag --event-burst"
    assert described("podsPerCore") == "default"
    assert described("address") == "default"
    assert described("systemReserved") == f"file {tmp_path}/node.yaml:5, drop-in {tmp_path}/conf.d/10-first.conf:4"
    assert described("featureGates") == f"file {tmp_path}/node.yaml:8, flag --feature-gates"


def test_drop_in_requires_version_and_kind(load_text, native, tmp_path):
    native("maxPods: 1\n", header="", name="conf.d/a.conf")

    with pytest.raises(ConfigError, match="kind: is missing"):
        load_text("", f"--config-dir={tmp_path}/conf.d")


def test_all_problems_of_all_files_are_reported(native, tmp_path):
    path = native("maxPodz: 1\nport: eighty\nhairpinMode: x\n")
    native("eventBurst: true\n", header=NATIVE, name="conf.d/a.conf")

    with pytest.raises(ConfigError) as caught:
        load_configuration(
            [
                f"--config={path}",
                f"--config-dir={tmp_path}/conf.d",
                "--max-pods=many",
                "--nodeip=1.2.3.4",
                "--node-ip=x",
            ]
        )

    assert [
        (problem.source.replace(str(tmp_path), ""), problem.path, problem.rule) for problem in caught.value.problems
    ] == [
        ("--node-ip", "", "must be an IP address, or one per family joined by a comma"),
        ("--max-pods", "", "must be an integer"),
        ("command line", "", "is not a known flag; did you mean --node-ip?"),
        ("/node.yaml:4", "maxPodz", "is not a known field; did you mean maxPods?"),
        ("/node.yaml:5", "port", "must be an integer (int32)"),
        ("/conf.d/a.conf:3", "eventBurst", "must be an integer (int32)"),
        ("/node.yaml:6", "hairpinMode", "must be one of promiscuous-bridge, hairpin-veth, none"),
    ]


def test_wrong_type_is_reported_even_if_overridden(rejected):
    assert rejected("maxPods: '5'", "--max-pods=3") == [("maxPods", "must be an integer (int32)")]


@pytest.mark.parametrize(
    ("text", "path", "rule"),
    [
        ("enableServer: 'true'", "enableServer", "must be true or false"),
        ("maxPods: 1.5", "maxPods", "must be an integer (int32)"),
        ("maxPods: true", "maxPods", "must be an integer (int32)"),
        ("maxPods: 3000000000", "maxPods", "must be in the range of int32: -2147483648 to 2147483647"),
        ("clusterDomain: 5", "clusterDomain", "must be a string; quote it"),
        ("clusterDNS: 10.0.0.1", "clusterDNS", "must be an array"),
        ("clusterDNS: [1]", "clusterDNS[0]", "must be a string; quote it"),
        ("evictionHard: [a]", "evictionHard", "must be an object"),
        ("systemReserved: {cpu: 1}", "systemReserved.cpu", "must be a string; quote it"),
        ("authentication: true", "authentication", "must be an object"),
        ("syncFrequency: 60", "syncFrequency", "must be a duration such as 20s or 1h30m"),
        ("syncFrequency: soon", "syncFrequency", "is not a duration such as 20s, 100ms or 1h30m"),
        ("memoryThrottlingFactor: high", "memoryThrottlingFactor", "must be a number"),
        ("logging: {flushFrequency: true}", "logging.flushFrequency", "must be a string"),
        ("logging: {options: {json: {infoBufferSize: x}}}", "logging.options.json.infoBufferSize", "is not a quantity"),
        ("logging: {verbosity: -1}", "logging.verbosity", "must be in the range of uint32: 0 to 4294967295"),
        ("registerWithTaints: [{kee: x}]", "registerWithTaints[0].kee", "is not a known field; did you mean key?"),
    ],
)
def test_wrong_type_is_an_error(rejected, text, path, rule):
    assert any(where == path and rule_text.startswith(rule) for where, rule_text in rejected(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "line"), ("", "is empty"), ("- a\n", "must be one object"), ("a: 1\na: 2\n", "duplicate key")],
)
def test_file_must_be_one_object(native, text, message):
    with pytest.raises(ConfigError, match=message):
        load_configuration([f"--config={native(text, header='')}"])


def test_unreadable_files_are_reported(tmp_path):
    with pytest.raises(UnreadableFile) as caught:
        load_configuration([f"--config={tmp_path}/none.yaml", f"--config-dir={tmp_path}/none.d", "--max-pods=x"])

    assert [problem.source for problem in caught.value.problems] == [
        "--max-pods",
        f"{tmp_path}/none.d",
        f"{tmp_path}/none.yaml",
    ]


def test_header_values_are_masked(load_text, native):
    loaded = load_text("staticPodURL: http://x\nstaticPodURLHeader: {Authorization: [secret, other]}")
    assert masked(loaded.config)["staticPodURLHeader"] == {"Authorization": ["<masked>", "<masked>"]}

    with pytest.raises(ConfigError) as caught:
        load_configuration(
            [f"--config={native('staticPodURLHeader: {Authorization: secret}')}", "--manifest-url-header=secret"]
        )
    assert "secret" not in str(caught.value)


@pytest.mark.row("type.TimeOrMetaDuration.Duration", "type.TimeOrMetaDuration.SerializeAsString")
@pytest.mark.parametrize(
    ("written", "length", "as_string"),
    [("10s", Duration.of(seconds=10), True), (5_000_000_000, Duration.of(seconds=5), False), ("0", Duration(), True)],
)
def test_flush_frequency_keeps_its_form(written, length, as_string):
    problems = []
    logging = decode(LoggingConfiguration, {"flushFrequency": written}, lambda *problem: problems.append(problem))

    assert not problems
    assert logging.flush_frequency == TimeOrMetaDuration(duration=length, serialize_as_string=as_string)
    assert encode(logging)["flushFrequency"] == (str(length) if as_string else written)


def test_files_without_the_suffix_of_drop_ins_are_listed(tmp_path):
    for name in ("a.conf", "b.yaml", "sub/c", "sub/d.conf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "e.conf").mkdir()

    assert skipped_files(str(tmp_path)) == [f"{tmp_path}/b.yaml", f"{tmp_path}/sub/c"]
    assert list(drop_ins(str(tmp_path))) == [f"{tmp_path}/a.conf", f"{tmp_path}/sub/d.conf"]
