"""Tests for values that kube-apiserver 1.29.1 has written, encrypted and as protobuf."""

from __future__ import annotations

import base64
import json

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import Encryption, parse_config
from apiserver_stub.storage.layout import Layout
from nodeagent.base.identity import Identity

KEY = {"name": "key1", "secret": base64.b64encode(bytes(range(32))).decode()}
WRITTEN = {
    "aescbc": (
        "azhzOmVuYzphZXNjYmM6djE6a2V5MTrZylVXX8ZOXriy9anEjGlkyQPsniP7i+JAZAgCGnjDfra++RNOyReZHS01AIMU/otg"
        "/eKSxqiiF1BbeJTST+/3Z/OHK34AFdP8ZVHi44ljixwaAr2H8Liv3s6cQ3/+1yur2KClip7glmxy7bPddWf/jk0fbFpTyTO5"
        "aXAp9uAfTDRQx2n0MoUwxkteFL/MKcMnFNiduol+oXzxB0J3Yarbhx7AS2Lr3PghR+JNVoy0tZ/l9Ty7c2wmOiuyf56BaaD0"
        "UZTyrqG/gbZ/JeIIeeH+la4WcZQ5KnugGlDaRDRLFouCcE2KPuYOVMxPXZ50vqHjP5D83AQtYcvIXpp7uFT4isJhJtdmIGAa"
        "pgskMdq9TA=="
    ),
    "aesgcm": (
        "azhzOmVuYzphZXNnY206djE6a2V5MTr1Lj/ftdFlz/C0jdvqMevy+zY8xQRQ125Sh/MtVerHcM99M4Yf/6iichsbBgv4WuME"
        "cvDB9tBH++voZ7hxrT1mJjGuTWoxONXUbts+Ygf4R94wjNgAG8fVGcBHkKyk7hs4CqV3XSSKi15b/X/xNyZDbzYVbgrr9E3N"
        "S1Kbh75ebrAqZAGvWOJYVHcVuV7Ak1ptQ2jU5gUEXvxO5m5OxXD8ND/NRgjsaPlVQwouHBiu2HPBVmvl+fpSgqPlSI7/hBMI"
        "oKeo8f/w582SJoqS0UzuLKM/Z/GC+ro="
    ),
    "secretbox": (
        "azhzOmVuYzpzZWNyZXRib3g6djE6a2V5MTqpR3+ZQVBrPJ5a+OifizXXOPkig6cBdbu5n0BYoCRjHAzqBN6DJboyBXQYVmQN"
        "mRbN4wrgSVxk4f4iy4jBBGNh1X9Zl73zLk0w9ZNZbQq/HM7YSPYzgKtZm2luBVW2QPf1C5vCSPDEn+PhBi0sfdD7T9qkB0qE"
        "20hYyYtoPpu7n1C/HdUABtwsQqQlXW3++ZBHpyiLpFd3EuOv4QEcswBUp/bajwaZeJvREqFkTpybERQLpvLOOs4+nUytgJ/v"
        "Va57qwHGTcyBxj6qdTkFxx6tadd6vpYJZXQG4G2/APU5spFm9NqE/kx0as1YhPZgKuE0LJb+YcrW/f6lOv/tUbi2Q76QV79d"
        "J/0="
    ),
}


@pytest.mark.row("opt.encryption-provider-config")
@pytest.mark.parametrize(
    ("kind", "name", "key", "member", "value"),
    [
        ("aescbc", "scheduling.k8s.io/priorityclasses", "v", "value", 7),
        ("aesgcm", "node.k8s.io/runtimeclasses", "v", "handler", "h"),
        ("secretbox", "coordination.k8s.io/leases", "default/v", "spec", {"holderIdentity": "x"}),
    ],
)
def test_value_encrypted_by_kube_apiserver_is_decrypted(
    kind: str, name: str, key: str, member: str, value: object
) -> None:
    group, plural = name.split("/")
    entry = {"resources": [f"{plural}.{group}"], "providers": [{kind: {"keys": [KEY]}}]}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    encryption = Encryption(parse_config(json.dumps({**head, "resources": [entry]}).encode(), Identity()))

    data, transformer = StorageCodec(Layout("/registry", {}), encryption, Identity()).read(
        name, key, base64.b64decode(WRITTEN[kind])
    )

    found = objects.decode(data)
    assert (found["metadata"]["name"], found[member]) == ("v", value)
    assert transformer is encryption.writer(name)


SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"v": {"type": "integer"}}}}
FREE = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
STORED_COLUMN = {"name": "V", "type": "integer", "JSONPath": ".v"}
COLUMN = {"name": "V", "type": "integer", "jsonPath": ".v"}
VERSION = {"name": "v1", "served": True, "storage": True}
STATUS = {"status": {}}
CLIENT = {"url": "https://example.com/convert"}


@pytest.mark.parametrize(
    ("stored", "spec"),
    [
        (
            {
                "version": "v1",
                "validation": SCHEMA,
                "subresources": STATUS,
                "versions": [VERSION],
                "additionalPrinterColumns": [STORED_COLUMN],
                "selectableFields": [{"jsonPath": ".v"}],
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": False,
            },
            {
                "versions": [
                    {
                        **VERSION,
                        "schema": SCHEMA,
                        "subresources": STATUS,
                        "additionalPrinterColumns": [COLUMN],
                        "selectableFields": [{"jsonPath": ".v"}],
                    }
                ],
                "conversion": {"strategy": "None"},
            },
        ),
        (
            {
                "version": "v1",
                "versions": [
                    {**VERSION, "schema": SCHEMA, "additionalPrinterColumns": [STORED_COLUMN]},
                    {"name": "v2", "served": True, "storage": False, "schema": FREE},
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhookClientConfig": CLIENT,
                    "conversionReviewVersions": ["v1"],
                },
                "preserveUnknownFields": False,
            },
            {
                "versions": [
                    {**VERSION, "schema": SCHEMA, "additionalPrinterColumns": [COLUMN]},
                    {"name": "v2", "served": True, "storage": False, "schema": FREE},
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": CLIENT, "conversionReviewVersions": ["v1"]},
                },
            },
        ),
        ({"version": "v1"}, {"versions": [VERSION], "preserveUnknownFields": True}),
    ],
)
def test_definition_in_the_version_stored_by_kube_apiserver_is_read_as_v1(
    stored: dict[str, object], spec: dict[str, object]
) -> None:
    head = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1"}
    value = json.dumps({**head, "metadata": {"name": "ws.example.com"}, "spec": stored}, separators=(",", ":"))

    data, _ = StorageCodec(Layout("/registry", {}), Encryption(), Identity()).read(
        "apiextensions.k8s.io/customresourcedefinitions", "ws.example.com", value.encode()
    )

    found = objects.decode(data)
    assert (found["apiVersion"], found["spec"]) == ("apiextensions.k8s.io/v1", spec)
