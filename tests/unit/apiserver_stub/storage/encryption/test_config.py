"""Tests for the encryption configuration file: providers, keys and validation."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.storage.encryption import DecryptionError, Encryption, EncryptionError, load_config, parse_config
from nodeagent.base.identity import Identity

LOCATION = b"/registry/secrets/default/s"
IDENTITY: dict[str, Any] = {"identity": {}}


def key(name: str, size: int = 32, letter: str = "k") -> dict[str, str]:
    return {"name": name, "secret": base64.b64encode(letter.encode() * size).decode()}


def provider(kind: str, *keys: dict[str, str]) -> dict[str, Any]:
    return {kind: {"keys": list(keys)}}


def entry(resources: list[str], *providers: dict[str, Any]) -> dict[str, Any]:
    return {"resources": resources, "providers": list(providers)}


def config(*entries: dict[str, Any]) -> bytes:
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return json.dumps({**head, "resources": list(entries)}).encode()


def problems(data: bytes) -> list[str]:
    with pytest.raises(EncryptionError) as error:
        parse_config(data, Identity())
    return error.value.problems


def test_first_entry_that_matches_a_resource_applies() -> None:
    rules = parse_config(
        config(
            entry(["secrets"], provider("aescbc", key("first"))),
            entry(["leases.coordination.k8s.io", "*.storage.k8s.io"], provider("aesgcm", key("second"))),
            entry(["configmaps"], IDENTITY),
            entry(["*."], provider("secretbox", key("third"))),
            entry(["*.*"], provider("aesgcm", key("fourth", 16))),
        ),
        Identity(),
    )

    labels = {
        "core/secrets": b"k8s:enc:aescbc:v1:first:",
        "coordination.k8s.io/leases": b"k8s:enc:aesgcm:v1:second:",
        "storage.k8s.io/csinodes": b"k8s:enc:aesgcm:v1:second:",
        "core/configmaps": b"",
        "core/pods": b"k8s:enc:secretbox:v1:third:",
        "node.k8s.io/runtimeclasses": b"k8s:enc:aesgcm:v1:fourth:",
    }
    assert {name: rules.transformers(name)[0].label for name in labels} == labels


def test_first_key_encrypts_and_all_keys_decrypt() -> None:
    old = Encryption(parse_config(config(entry(["secrets"], provider("aescbc", key("k1")))), Identity()))
    stored = old.writer("core/secrets").encrypt(b"x", LOCATION)
    new_keys = provider("aescbc", key("k2", letter="n"), key("k1"))
    both = Encryption(
        parse_config(config(entry(["secrets"], provider("secretbox", key("s")), new_keys, IDENTITY)), Identity())
    )

    data, transformer = both.decrypt("core/secrets", stored, LOCATION)

    assert (data, transformer.label) == (b"x", b"k8s:enc:aescbc:v1:k1:")
    assert both.decrypt("core/secrets", b"{}", LOCATION)[0] == b"{}"
    assert both.writer("core/secrets").label == b"k8s:enc:secretbox:v1:s:"
    assert both.check() == ""
    with pytest.raises(DecryptionError, match="no matching prefix found"):
        old.decrypt("core/secrets", b"{}", LOCATION)
    with pytest.raises(DecryptionError, match="identity transformer tried"):
        Encryption().decrypt("core/secrets", stored, LOCATION)


@pytest.mark.parametrize("name", ["core/ranges", "core/masterleases"])
def test_internal_data_is_never_encrypted(name: str) -> None:
    sealing = Encryption(parse_config(config(entry(["*.*"], provider("aescbc", key("k1")))), Identity()))
    encrypted = sealing.writer("core/secrets").encrypt(b"x", LOCATION)

    assert sealing.writer(name).label == b""
    assert sealing.decrypt(name, b"{}", LOCATION)[0] == b"{}"
    assert sealing.decrypt(name, encrypted, LOCATION)[0] == b"x"


def test_invalid_configuration_reports_every_error() -> None:
    found = problems(
        config(
            entry(["secrets", "secrets", "*."], provider("aescbc", key("k", 3)), {"identity": {}, "aesgcm": {}}, {}),
            entry(["*", "Pods", "events.events.k8s.io", "x.extensions", "pods.*", "serviceipallocations"], IDENTITY),
            entry([], provider("secretbox", {"name": "a:b", "secret": "%%"}, {"secret": key("x")["secret"]})),
            entry(["pods"], {"kms": {"name": "x"}}, provider("aesgcm")),
            entry([1, "", "nodes"], IDENTITY),
            {"resources": ["leases"]},
            {"resources": ["leases"], "providers": {}},
        )
    )

    for part in (
        "resources[0].resources: Invalid value: ['secrets', 'secrets', '*.']: the same resource cannot be specified",
        "resources[0].resources: Invalid value: ['secrets', 'secrets', '*.']: using overlapping resources such as",
        'resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected '
        "length, got 3, expected one of [16 24 32]",
        "resources[0].providers[1]: Invalid value: more than one provider specified in a single element",
        "resources[0].providers[2]: Invalid value: provider does not contain any of the expected providers",
        "resources[1].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group",
        'resources[1].resources[1]: Invalid value: "Pods": resource name should not contain capital letters',
        "resources[1].resources[2]: Invalid value: \"events.events.k8s.io\": '*.events.k8s.io' objects are stored",
        "resources[1].resources[3]: Invalid value: \"x.extensions\": 'extensions' group has been removed",
        'resources[1].resources[4]: Invalid value: "pods.*": encrypting the same resource across groups',
        'resources[1].resources[5]: Invalid value: "serviceipallocations": resources which do not have REST API',
        "resources[2].resources: Required value",
        "resources[2].providers[0].secretbox.keys[0].name: Invalid value: \"a:b\": must not contain ':'",
        'keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
        "resources[2].providers[0].secretbox.keys[1].name: Required value",
        "resources[3].providers[0].kms.apiVersion: Forbidden: KMSv1 is deprecated",
        "resources[3].providers[0].kms.endpoint: Required value: endpoint is a mandatory field for a KMS provider",
        "resources[3].providers[1].aesgcm.keys: Required value",
        "resources[5].providers: Required value: at least one resources[5].providers is required",
        "resources[6].providers: Invalid value: {}: must be a list",
        "resources[4].resources[0]: Invalid value: 1: must be a resource name",
        'resources[4].resources[1]: Invalid value: "": must be a resource name',
    ):
        assert any(part in problem for problem in found), part
    assert not any("%%" in problem or base64.b64encode(b"kkk").decode() in problem for problem in found)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"apiVersion: v1\nkind: Config\n", 'no kind "Config" is registered for version "v1"'),
        (b"- a", "no kind"),
        (b"{", "error decoding"),
        (config(), "resources: Required value: at least one resources is required"),
    ],
)
def test_file_of_another_kind_is_rejected(data: bytes, problem: str) -> None:
    assert problem in problems(data)[0]


def test_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(EncryptionError, match=r"error while parsing file: .*nope"):
        load_config(tmp_path / "nope", Identity())
