"""Tests for ``nodeagent config``: output and exit codes of its actions."""

from __future__ import annotations

import argparse
import json

import pytest
import yaml

from nodeagent.cli.config import add_parser
from nodeagent.errors import Problem

NATIVE = (
    "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
    "containerRuntimeEndpoint: unix:///run/test.sock\n"
)


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns exit code, output and error output."""

    def command(*words):
        parser = argparse.ArgumentParser()
        add_parser(parser.add_subparsers())
        arguments = parser.parse_args(["config", *words])
        code = arguments.handler(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


@pytest.fixture
def file(tmp_path):
    def write(text, name="node.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_valid_file_exits_with_0(run, file):
    path = file(NATIVE)

    assert run("validate", path) == (0, f"{path}: valid NodeAgentConfiguration\n", "")


def test_unknown_names_are_errors_only_for_strict_validation(run, file):
    path = file(NATIVE + "maxPodz: 1\nfeatureGates: {Foo: true}\n")

    code, out, err = run("validate", path)
    strict_code, _, strict_err = run("validate", "--strict", path)

    assert (code, out) == (0, f"{path}: valid NodeAgentConfiguration\n")
    assert f"warning: {path}:4: maxPodz: 1 is not a known field; did you mean maxPods?; ignored" in err.splitlines()
    assert strict_code == 1
    assert strict_err.splitlines() == [
        f"{path}:4: maxPodz: 1 is not a known field; did you mean maxPods?",
        f"{path}:5: featureGates.Foo: true is not a feature gate of any known release",
        "2 problems",
    ]


def test_validation_depends_on_the_release(run, file):
    path = file(NATIVE + "cpuCFSQuotaPeriod: 10ms\n")

    assert run("validate", path)[0] == 1
    assert run("validate", "--compatibility-version=1.36", path)[0] == 0


def test_release_is_printed_with_its_origin(run, file):
    path = file(NATIVE)

    _, rows, _ = run("effective", "--config", path, "--compatibility-version", "1.34", "--provenance")
    _, document, _ = run("effective", "--config", path, "--provenance", "-o", "json")

    assert rows.splitlines()[-1].split() == ["compatibility-version", "--compatibility-version", "1.34"]
    assert json.loads(document)["release"]["origin"] == "default without API server"


def test_all_problems_are_listed_with_exit_code_1(run, file):
    path = file(NATIVE + "maxPodz: 1\nport: 0\n")

    code, out, err = run("validate", path)

    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"{path}:4: maxPodz: 1 is not a known field; did you mean maxPods?",
        f"{path}:5: port: 0 must be between 1 and 65535",
        "2 problems",
    ]


def test_problems_as_json(run, file):
    path = file(NATIVE + "port: 0\n")

    code, out, _ = run("validate", path, "-o", "json")

    assert code == 1
    assert json.loads(out) == {
        "problems": [{"source": f"{path}:4", "path": "port", "value": 0, "rule": "must be between 1 and 65535"}]
    }


def test_plugin_settings_and_limits_are_validated(run, file):
    path, plugins = file(NATIVE), file("requiredPlugins: [none]\nplugins: {cri: {a: 1}}\n", "plugins.yaml")

    code, _, err = run("validate", path, "--plugin-config", plugins)

    assert code == 1
    assert f"{plugins}: plugins.cri: accepts no settings" in err
    assert f"{plugins}: requiredPlugins[0]: 'none' plugin is not installed" in err

    required = file("requiredPlugins: [shutdown]\n", "plugins.yaml")
    assert run("validate", path, "--plugin-config", required)[0] == 0
    code, _, err = run("validate", path, "--plugin-config", required, "--disable-plugin", "shutdown")
    assert (code, err) == (1, f"{required}: plugin shutdown: is required, but disabled\n1 problem\n")


def test_problems_of_both_files_are_reported_together(run, file, tmp_path):
    path, plugins = file(NATIVE + "port: 0\n"), file("plugins: {cri: {a: 1}}\n", "plugins.yaml")
    setting = f"{plugins}: plugins.cri: accepts no settings"

    invalid_code, _, invalid = run("validate", path, "--plugin-config", plugins)
    unreadable_code, _, unreadable = run("validate", f"{tmp_path}/none.yaml", "--plugin-config", plugins)

    assert invalid_code == 1
    assert invalid.splitlines() == [f"{path}:4: port: 0 must be between 1 and 65535", setting, "2 problems"]
    assert unreadable_code == 2
    assert unreadable.splitlines()[1:] == [setting, "2 problems"]


def test_unreadable_file_exits_with_2(run, tmp_path):
    code, _, err = run("validate", f"{tmp_path}/none.yaml")

    assert code == 2
    assert "cannot be read: No such file or directory" in err


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "kind: CredentialProviderConfig\nproviders:\n- name: a\n  matchImages: [x.io]\n"
            "  defaultCacheDuration: 1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n",
            "CredentialProviderConfig",
        ),
        ("kind: SerializedNodeConfigSource\nsource: {}\n", "SerializedNodeConfigSource"),
    ],
)
def test_other_kinds_are_validated(run, file, text, kind):
    code, out, _ = run("validate", file("apiVersion: nodeagent.config.k8s.io/v1beta1\n" + text))

    assert code == 0
    assert kind in out


def test_effective_configuration_includes_flags(run, file):
    code, out, err = run("effective", f"--config={file(NATIVE + 'port: 1000')}", "--max_pods", "7", "--seccomp-default")

    shown = yaml.safe_load(out)
    assert code == 0
    assert (shown["maxPods"], shown["port"], shown["seccompDefault"], shown["syncFrequency"]) == (7, 1000, True, "1m0s")
    assert shown["kind"] == "NodeAgentConfiguration"
    assert "deprecated flags" in err


def test_provenance_is_printed_for_every_value(run, file):
    path = file(NATIVE + "port: 1000\nlogging: {verbosity: 2}")

    code, out, _ = run("effective", f"--config={path}", "--max-pods=7", "--provenance")

    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines()}
    assert code == 0
    assert rows["port"].startswith(f"file {path}:4 ")
    assert rows["maxPods"].split() == ["flag", "--max-pods", "7"]
    assert rows["logging.verbosity"].startswith(f"file {path}:5")
    assert rows["logging.format"].split() == ["default", '"text"']


def test_provenance_as_json(run, file):
    code, out, _ = run("effective", f"--config={file(NATIVE)}", "--provenance", "-o", "json")

    shown = json.loads(out)
    assert code == 0
    assert shown["provenance"]["port"] == "default"
    assert shown["configuration"]["port"] == 10250


def test_ineffective_gate_is_listed_and_warned_about(run, file, monkeypatch):
    monkeypatch.setattr("nodeagent.config.gate_usage.GATES_IN_USE", frozenset())

    reason = "not implemented"
    assert f"featureGates.MemoryQoS {reason}" in (
        " ".join(line.split()) for line in run("effective", "--unimplemented")[1].splitlines()
    )
    assert json.loads(run("effective", "--unimplemented", "-o", "json")[1])["featureGates.MemoryQoS"] == reason
    _, _, err = run("effective", f"--config={file(NATIVE + 'featureGates: {MemoryQoS: true}')}")
    assert "no effect yet: featureGates.MemoryQoS" in err


def test_ineffective_gates_of_a_file_are_those_that_it_changes(run, file):
    changed = file(NATIVE + "featureGates: {ContextualLogging: true, CSIVolumeHealth: true}")

    listed = json.loads(run("effective", "--unimplemented", "-o", "json", f"--config={changed}")[1])

    assert listed == {"featureGates.ContextualLogging": "the feature is always enabled"}
    assert json.loads(run("effective", "--unimplemented", "-o", "json", f"--config={file(NATIVE)}")[1]) == {}


@pytest.mark.parametrize("name", ["maxPods", "max_pods", "--max-pods"])
def test_field_is_explained(run, name):
    code, out, _ = run("explain", "-o", "json", "--", name)

    assert code == 0
    assert json.loads(out) == {
        "field": "maxPods",
        "type": "int32",
        "default": 110,
        "rule": "Maximum number of pods on this node; not negative.",
        "row": "config.maxPods",
        "flags": ["--max-pods"],
        "effect": "yes",
    }


def test_nested_fields_and_kubelet_field_names_are_explained(run):
    assert "type.NodeAgentX509Authentication.clientCAFile" in run("explain", "authentication.x509.clientCAFile")[1]
    assert "field:    platformAPIQPS" in run("explain", "kubeAPIQPS")[1]
    assert "none, deprecated" in run("explain", "iptablesDropBit")[1]


def test_unknown_field_exits_with_2_and_a_suggestion(run):
    assert run("explain", "maxpodss") == (2, "", "unknown field maxpodss; did you mean maxPods?\n")


def test_file_is_converted_to_the_native_kind(run, file):
    path = file("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nkubeAPIQPS: 3\n")

    code, out, _ = run("convert", path)

    assert code == 0
    assert yaml.safe_load(out) == {
        "apiVersion": "nodeagent.config.k8s.io/v1beta1",
        "kind": "NodeAgentConfiguration",
        "platformAPIQPS": 3,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    }
    assert json.loads(run("convert", path, "-o", "json")[1])["platformAPIQPS"] == 3


def test_result_as_json_has_kind_and_warnings(run, file):
    path = file(NATIVE + "maxPodz: 1\n")

    code, out, err = run("validate", path, "-o", "json")

    result = json.loads(out)
    assert (code, err) == (0, "")
    assert (result["file"], result["kind"], result["problems"]) == (path, "NodeAgentConfiguration", [])
    assert ["maxPodz" in warning for warning in result["warnings"]] == [True]


def test_objects_of_this_host_are_checked_unless_it_is_another_one(run, file, monkeypatch):
    path = file(NATIVE)
    problem = Problem(path, "cgroupRoot", "/none", "cgroup does not exist on this host")
    monkeypatch.setattr("nodeagent.cli.config.host_problems", lambda config, gates, source: [problem])

    here, _, err = run("validate", path)
    elsewhere, _, _ = run("validate", "--other-host", path)

    assert (here, elsewhere) == (1, 0)
    assert "'/none' cgroup does not exist on this host" in err


def test_ineffective_gates_of_drop_ins_are_those_that_they_change(run, file, tmp_path):
    directory = tmp_path / "conf.d"
    directory.mkdir()
    (directory / "10.conf").write_text(NATIVE + "featureGates: {CSIVolumeHealth: true}")

    code, out, _ = run("effective", "--unimplemented", "-o", "json", f"--config-dir={directory}")

    assert (code, json.loads(out)) == (0, {})


def test_unknown_field_without_a_similar_one_has_no_suggestion(run):
    assert run("explain", "zzzzzz") == (2, "", "unknown field zzzzzz\n")


def test_maps_and_lists_are_single_values(run, file):
    path = file(NATIVE + "evictionHard: {memory.available: 5%}\nclusterDNS: [10.0.0.10]\n")

    _, out, _ = run("effective", f"--config={path}", "--provenance", "-o", "json")

    origins = json.loads(out)["provenance"]
    assert {"evictionHard", "clusterDNS", "authentication.anonymous.enabled"} <= origins.keys()
    assert not {"authentication", "evictionHard.memory.available", "apiVersion", "kind"} & origins.keys()


def test_effective_configuration_as_json_has_no_origins(run, file):
    _, out, _ = run("effective", f"--config={file(NATIVE)}", "-o", "json")

    assert json.loads(out)["port"] == 10250


def test_count_of_problems_is_printed(run, file):
    assert run("validate", file(NATIVE + "port: 0\n"))[2].splitlines()[-1] == "1 problem"
