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
