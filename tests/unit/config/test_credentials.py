"""Tests for the credential provider configuration and the serialized configuration source."""

from __future__ import annotations

import errno
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from nodeagent.base.duration import Duration
from nodeagent.base.release import Release
from nodeagent.config.convert import convert
from nodeagent.config.credentials import (
    decode_source,
    encode_source,
    is_image_pattern,
    load_credential_providers,
)
from nodeagent.config.features import build_gates
from nodeagent.contracts.configuration import CredentialProvider, ExecEnvVar
from nodeagent.errors import ConfigError

HEADER = "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n"
PROVIDER = """\
providers:
- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: A, value: b}]
"""
SOURCE_HEADER = "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: SerializedNodeConfigSource\n"


@pytest.fixture
def rejected(native):
    def load(text, header=HEADER):
        with pytest.raises(ConfigError) as caught:
            load_credential_providers(native(text, header=header))
        return [(problem.path, problem.rule) for problem in caught.value.problems]

    return load


@pytest.mark.row("config.kind.CredentialProviderConfig")
@pytest.mark.parametrize("group", ["nodeagent.config.k8s.io", "kubelet.config.k8s.io"])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
def test_every_version_of_the_kind_is_accepted(native, group, version):
    path = native(PROVIDER, header=f"apiVersion: {group}/{version}\nkind: CredentialProviderConfig\n")

    assert load_credential_providers(path).config.providers == (
        CredentialProvider(
            name="ecr",
            match_images=("*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"),
            default_cache_duration=Duration.of(hours=12),
            api_version="credentialprovider.kubelet.k8s.io/v1",
            args=("get",),
            env=(ExecEnvVar(name="A", value="b"),),
        ),
    )


@pytest.mark.row("config.kind.CredentialProviderConfig")
def test_other_kind_or_version_is_rejected(rejected):
    assert rejected(PROVIDER, "apiVersion: nodeagent.config.k8s.io/v2\nkind: CredentialProviderConfig\n")[0][0] == (
        "apiVersion"
    )
    assert rejected(PROVIDER, "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n")[0][0] == (
        "kind"
    )


def test_unknown_fields_are_ignored_with_a_warning(native):
    path = native(PROVIDER + "  later: {}\n", header=HEADER)

    loaded = load_credential_providers(path)

    assert len(loaded.config.providers) == 1
    assert loaded.warnings[0].startswith(f"{path}:10: providers[0].later is not a known field")


@pytest.mark.parametrize(
    ("old", "new", "path", "rule"),
    [
        (PROVIDER, "providers: []\n", "providers", "must name at least one provider"),
        ("name: ecr", "name: ''", "providers[0].name", "must be set"),
        ("name: ecr", "name: bin/ecr", "providers[0].name", "must be a file name without '/'"),
        ("name: ecr", "name: ..", "providers[0].name", "must be a file name"),
        ("name: ecr", "name: e r", "providers[0].name", "must be a file name"),
        (
            'matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]',
            "matchImages: []",
            "providers[0].matchImages",
            "must name at least one pattern",
        ),
        ("registry.io:8080/path", "https://x", "providers[0].matchImages[1]", "must be a domain"),
        ("defaultCacheDuration: 12h", "", "providers[0].defaultCacheDuration", "must be set"),
        ("Duration: 12h", "Duration: -1s", "providers[0].defaultCacheDuration", "must not be negative"),
        ("io/v1\n", "io/v2\n", "providers[0].apiVersion", "must be one of credentialprovider.kubelet.k8s.io/v1alpha1"),
        ("name: ecr", r'name: "e\0r"', "providers[0].name", "must be a file name"),
        ("name: A", "name: ''", "providers[0].env[0].name", "must be the name of an environment variable"),
        ("name: A", "name: A=B", "providers[0].env[0].name", "must be the name of an environment variable"),
        ("name: A", r'name: "A\0"', "providers[0].env[0].name", "must be the name of an environment variable"),
        ("value: b", r'value: "b\0"', "providers[0].env[0].name", "must be the name of an environment variable"),
        ("args: [get]", "args: get", "providers[0].args", "must be an array"),
    ],
)
def test_violated_rule_is_reported(rejected, old, new, path, rule):
    assert any(where == path and text.startswith(rule) for where, text in rejected(PROVIDER.replace(old, new)))


def test_duplicate_provider_name_is_rejected(rejected):
    assert rejected(PROVIDER + PROVIDER.partition("\n")[2]) == [
        ("providers[1].name", "is already used by an earlier entry")
    ]


@pytest.mark.parametrize(
    ("pattern", "valid"),
    [
        ("*.registry.io", True),
        ("reg[0-9].io", True),
        ("registry.io:443/a/b", True),
        ("registry.io:0", False),
        ("registry.io:port", False),
        ("", False),
        ("/path", False),
        ("a b", False),
    ],
)
def test_image_pattern_is_recognized(pattern, valid):
    assert is_image_pattern(pattern) is valid


@pytest.mark.row("type.SerializedNodeConfigSource.source", "config.kind.SerializedNodeConfigSource")
def test_serialized_source_is_decoded_and_encoded(native, tmp_path):
    body = {
        "source": {
            "configMap": {
                "namespace": "kube-system",
                "name": "node",
                "uid": "u-1",
                "kubeletConfigKey": "kubelet",
            }
        }
    }
    path = native(yaml.safe_dump(body), header=SOURCE_HEADER)

    source = decode_source(path)

    assert source.source.config_map.name == "node"
    assert encode_source(source) == {
        "apiVersion": "nodeagent.config.k8s.io/v1beta1",
        "kind": "SerializedNodeConfigSource",
        **body,
    }
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(encode_source(source)))
    assert decode_source(str(again)) == source


@pytest.mark.row("config.kind.SerializedNodeConfigSource")
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("apiVersion: nodeagent.config.k8s.io/v1\nkind: SerializedNodeConfigSource\nsource: {}\n", "apiVersion"),
        ("apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeConfigSource\nsource: {}\n", "kind"),
        (SOURCE_HEADER + "source: text\n", "source"),
        (SOURCE_HEADER + "sauce: {}\n", "sauce"),
    ],
)
def test_invalid_serialized_source_is_rejected(native, text, path):
    with pytest.raises(ConfigError) as caught:
        decode_source(native(text, header=""))

    assert [problem.path for problem in caught.value.problems] == [path]


def test_converted_provider_file_keeps_its_version(native):
    path = native(PROVIDER, header="apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n")

    converted = convert(path)

    assert converted["apiVersion"] == "nodeagent.config.k8s.io/v1"
    assert converted["providers"][0]["apiVersion"] == "credentialprovider.kubelet.k8s.io/v1"


@pytest.mark.row("flag.image-credential-provider-config")
def test_files_of_a_directory_are_merged_by_name(native, tmp_path):
    for name, file in (
        ("second", "b.yml"),
        ("first", "a.yaml"),
        ("third", "c.json"),
        ("no", "d.conf"),
        ("no", "e/f.yaml"),
    ):
        native(PROVIDER.replace("ecr", name), header=HEADER, name=f"providers/{file}")

    loaded = load_credential_providers(str(tmp_path / "providers"))

    assert [provider.name for provider in loaded.config.providers] == ["first", "second", "third"]


def test_provider_in_two_files_is_an_error(native, tmp_path):
    native(PROVIDER, header=HEADER, name="providers/a.yaml")
    native(PROVIDER, header=HEADER, name="providers/b.yaml")

    with pytest.raises(ConfigError) as caught:
        load_credential_providers(str(tmp_path / "providers"))

    (problem,) = caught.value.problems
    assert problem.source.startswith(f"{tmp_path}/providers/b.yaml")
    assert (problem.path, problem.value) == ("providers[0].name", "ecr")
    assert "duplicate provider name" in problem.rule


def test_directory_without_files_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="must have at least one file"):
        load_credential_providers(str(tmp_path))


def test_problems_of_all_files_are_reported(native, tmp_path):
    native("providers: []", header=HEADER, name="providers/a.yaml")
    native("a: [", header=HEADER, name="providers/b.yaml")

    with pytest.raises(ConfigError) as caught:
        load_credential_providers(str(tmp_path / "providers"))

    assert len(caught.value.problems) == 2


TOKEN_ATTRIBUTES = """\
  tokenAttributes:
    serviceAccountTokenAudience: registry
    cacheType: Token
    requireServiceAccount: true
    requiredServiceAccountAnnotationKeys: [Example.com/role]
    optionalServiceAccountAnnotationKeys: [region]
"""


@pytest.mark.parametrize(
    ("old", "new", "path", "rule"),
    [
        ("Audience: registry", "Audience: ''", "serviceAccountTokenAudience", "must be set"),
        ("cacheType: Token", "cacheType: ''", "cacheType", "must be set to one of ServiceAccount, Token"),
        ("cacheType: Token", "cacheType: Pod", "cacheType", "must be one of ServiceAccount, Token"),
        ("    requireServiceAccount: true\n", "", "requireServiceAccount", "must be set"),
        (
            "ServiceAccount: true",
            "ServiceAccount: false",
            "requiredServiceAccountAnnotationKeys",
            "must be empty if requireServiceAccount is false",
        ),
        ("[region]", "[a/b/c]", "optionalServiceAccountAnnotationKeys[0]", "a qualified name must consist of"),
        ("[region]", "[region, region]", "optionalServiceAccountAnnotationKeys[1]", "is already listed"),
        (
            "[region]",
            "[Example.com/role]",
            "optionalServiceAccountAnnotationKeys[0]",
            "must not be both required and optional",
        ),
    ],
)
def test_violated_rule_of_token_attributes_is_reported(rejected, old, new, path, rule):
    (problem,) = rejected(PROVIDER + TOKEN_ATTRIBUTES.replace(old, new))

    assert problem[0] == f"providers[0].tokenAttributes.{path}"
    assert problem[1].startswith(rule)


def test_token_attributes_require_version_v1(rejected):
    assert rejected(PROVIDER.replace("io/v1\n", "io/v1beta1\n") + TOKEN_ATTRIBUTES) == [
        (
            "providers[0].tokenAttributes",
            "requires the apiVersion credentialprovider.kubelet.k8s.io/v1 of the provider",
        )
    ]


def test_token_attributes_without_gate_name_the_release(native):
    path = native(PROVIDER + TOKEN_ATTRIBUTES, header=HEADER)

    with pytest.raises(ConfigError) as caught:
        load_credential_providers(path, build_gates({}, Release(1, 33)))

    (problem,) = caught.value.problems
    assert (problem.path, problem.rule) == (
        "providers[0].tokenAttributes",
        "needs the feature gate NodeAgentServiceAccountTokenForCredentialProviders, enabled by default since release "
        "1.34 (--compatibility-version)",
    )
    assert load_credential_providers(path, build_gates({}, Release(1, 34))).config.providers[0].token_attributes


def test_provider_with_token_is_left_out_for_an_assumed_release(native):
    path = native(PROVIDER + TOKEN_ATTRIBUTES, header=HEADER)

    loaded = load_credential_providers(path, build_gates({}), assumed=True)

    assert loaded.config.providers == ()
    assert load_credential_providers(path, build_gates({}, Release(1, 34)), assumed=True).config.providers
    assert loaded.warnings[0].endswith("the provider is not used")


def test_digest_changes_with_the_content(native):
    first = load_credential_providers(native(PROVIDER, header=HEADER)).digest
    second = load_credential_providers(native(PROVIDER + "  later: {}\n", header=HEADER)).digest

    assert first.startswith("sha256:")
    assert first != second


def test_unreadable_directory_is_an_error_with_the_reason(tmp_path, monkeypatch):
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path))
    monkeypatch.setattr(Path, "iterdir", Mock(side_effect=error))

    with pytest.raises(ConfigError) as caught:
        load_credential_providers(str(tmp_path))

    (problem,) = caught.value.problems
    assert (problem.source, problem.rule) == (str(tmp_path), "cannot be read: Permission denied")
