"""Tests for encryption at rest: stored values, and key rotation while the server runs."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.server import storage as module
from apiserver_stub.storage.encryption import EncryptionError
from nodeagent.testing.apiserver import usual_options

from .etcd import running_etcd, serving
from .kms_provider import KmsProvider
from .processes import helper_process
from .test_limits import Client, until

SECRETS = "/api/v1/namespaces/default/secrets"
PLAIN = "c3VwZXItc2VjcmV0LXZhbHVl"


def config(*keys: str, kind: str = "aescbc") -> str:
    made = [{"name": name, "secret": base64.b64encode(name.encode() * 16).decode()} for name in keys]
    entry = {"resources": ["secrets"], "providers": [{kind: {"keys": made}}, {"identity": {}}]}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return json.dumps({**head, "resources": [entry]})


def a_secret(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"password": PLAIN}}


async def create(client: Client, name: str) -> None:
    assert (await client("POST", SECRETS, json=a_secret(name)))[0] == 201


async def password(client: Client, name: str) -> str:
    return str(json.loads((await client("GET", f"{SECRETS}/{name}"))[2])["data"]["password"])


def on_disk(data: Path) -> bytes:
    return b"".join(path.read_bytes() for path in data.glob("store.db*"))


@pytest.mark.row("opt.encryption-provider-config")
async def test_secrets_are_never_stored_in_plain_text(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(config("k1"))
    async with serving(tmp_path / "a", f"--encryption-provider-config={file}") as client:
        await create(client, "s")
        assert await password(client, "s") == PLAIN
        assert (await client("GET", "/readyz/kms-providers"))[0] == 404
    assert b"k8s:enc:aescbc:v1:k1:" in on_disk(tmp_path / "a")
    assert PLAIN.encode() not in on_disk(tmp_path / "a")
    async with serving(tmp_path / "a") as client:  # without the keys
        code, _, response = await client("GET", f"{SECRETS}/s")
        assert code == 500
        message = json.loads(response)["message"]
        assert message == "Internal error occurred: identity transformer tried to read encrypted data"
        assert (await client("GET", SECRETS))[0] == 500
        assert (await client("DELETE", f"{SECRETS}/s"))[0] == 500


@pytest.mark.row("opt.encryption-provider-config-automatic-reload")
@pytest.mark.parametrize("reload", [True, False])
async def test_keys_are_rotated_while_servers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reload: bool
) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.05)
    file = tmp_path / "keys.yaml"
    file.write_text(config("k1"))
    options = [f"--encryption-provider-config={file}"]
    if reload:
        options.append("--encryption-provider-config-automatic-reload")
    caplog.set_level("INFO")
    async with (
        running_etcd(tmp_path / "etcd") as etcd,
        serving(tmp_path / "a", f"--store-servers={etcd.url}", *options) as one,
        serving(tmp_path / "b", f"--store-servers={etcd.url}", *options) as other,
    ):

        async def label(name: str) -> bytes:
            (item,) = (await etcd.stored(f"/registry/secrets/default/{name}")).values()
            return b":".join(item.value.split(b":")[:5])

        await create(one, "old")
        assert await label("old") == b"k8s:enc:aescbc:v1:k1"
        assert (await one("GET", "/readyz/kms-providers"))[0] == (200 if reload else 404)
        file.write_text("nonsense")
        await (until(lambda: caplog.text.count("Failed to reload encryption") == 2) if reload else asyncio.sleep(0.2))
        file.write_text(_both())
        await (until(lambda: caplog.text.count("Reloaded encryption") == 2) if reload else asyncio.sleep(0.2))
        await create(other, "new")
        assert await label("new") == (b"k8s:enc:secretbox:v1:k2" if reload else b"k8s:enc:aescbc:v1:k1")
        for client in (one, other):
            assert await password(client, "old") == await password(client, "new") == PLAIN
        if not reload:
            return
        old = json.loads((await one("GET", f"{SECRETS}/old"))[2])
        assert (await one("PUT", f"{SECRETS}/old", json=old))[0] == 200  # same content, encrypted again
        assert await label("old") == b"k8s:enc:secretbox:v1:k2"


def _both() -> str:
    """Return rotated keys: a new key of another provider encrypts, and the old key decrypts."""
    new, old = json.loads(config("k2", kind="secretbox")), json.loads(config("k1"))
    new["resources"][0]["providers"] = new["resources"][0]["providers"][:1] + old["resources"][0]["providers"]
    return json.dumps(new)


@pytest.mark.row("opt.encryption-provider-config")
def test_invalid_keys_prevent_start_and_report_every_error(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(config("k").replace('"secrets"', '"Secrets"').replace('"name": "k"', '"name": ""'))
    options = usual_options(tmp_path, f"--encryption-provider-config={file}")
    command = [sys.executable, "-m", "apiserver_stub", *options]

    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert result.returncode == 1
    for part in ("error while parsing file: ", "should not contain capital letters", "name is a mandatory field"):
        assert part in result.stderr


def kms_config(socket: Path, version: str = "v2") -> str:
    provider = {"kms": {"apiVersion": version, "name": "vault", "endpoint": f"unix://{socket}", "timeout": "5s"}}
    entry = {"resources": ["secrets"], "providers": [provider, {"identity": {}}]}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return json.dumps({**head, "resources": [entry]})


@pytest.mark.row("opt.encryption-provider-config")
async def test_key_management_service_protects_the_data_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.1)
    file, socket = tmp_path / "keys.yaml", tmp_path / "kms.sock"
    file.write_text(kms_config(socket))
    provider = KmsProvider(socket)
    try:
        async with serving(tmp_path / "a", f"--encryption-provider-config={file}") as client:
            await create(client, "s")
            assert await password(client, "s") == PLAIN
            assert (await client("GET", "/healthz/kms-provider-0"))[0] == 200
            provider.rotate()
        assert b"k8s:enc:kms:v2:vault:" in on_disk(tmp_path / "a")
        assert PLAIN.encode() not in on_disk(tmp_path / "a")
        async with serving(
            tmp_path / "a", f"--encryption-provider-config={file}"
        ) as client:  # decrypts with the service
            assert await password(client, "s") == PLAIN
    finally:
        provider.close()
    async with serving(tmp_path / "a", f"--encryption-provider-config={file}") as client:  # without the service
        assert (await client("GET", f"{SECRETS}/s"))[0] == 500
        code, _, response = await client("POST", SECRETS, json=a_secret("t"))
        assert code == 500 and b"failed to encrypt: key management service vault: " in response
        assert (await client("GET", "/healthz/kms-provider-0"))[0] == 500


@pytest.mark.row("opt.encryption-provider-config")
async def test_key_management_service_of_version_1_requires_its_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATUS_SECONDS", 0.1)
    file, socket = tmp_path / "keys.yaml", tmp_path / "kms.sock"
    file.write_text(kms_config(socket, "v1"))
    options, gate = (f"--encryption-provider-config={file}",), "--feature-gates=KMSv1=true"
    with pytest.raises(EncryptionError, match="Set --feature-gates=KMSv1=true"):
        async with serving(tmp_path / "a", *options):
            pass
    async with helper_process("tests.integration.apiserver.kms_v1_provider", str(socket)) as command:
        async with serving(tmp_path / "a", *options, gate) as client:
            await create(client, "s")
            assert (await client("GET", "/healthz/kms-provider-0"))[0] == 200
            await command("rotate")
            await create(client, "t")
        assert on_disk(tmp_path / "a").count(b"k8s:enc:kms:v1:vault:\0") >= 2
        assert PLAIN.encode() not in on_disk(tmp_path / "a")
        async with serving(tmp_path / "a", *options, gate) as client:  # decrypts with the service
            assert await password(client, "s") == await password(client, "t") == PLAIN


async def test_server_responds_while_a_data_key_is_decrypted(tmp_path: Path) -> None:
    file, socket = tmp_path / "keys.yaml", tmp_path / "kms.sock"
    file.write_text(kms_config(socket))
    provider = KmsProvider(socket)
    option = f"--encryption-provider-config={file}"
    try:
        async with (
            running_etcd(tmp_path / "etcd") as etcd,
            serving(tmp_path / "a", f"--store-servers={etcd.url}", option) as one,
            serving(tmp_path / "b", f"--store-servers={etcd.url}", option) as other,
        ):
            provider.decrypting.clear()
            provider.may_decrypt.clear()
            await create(one, "s")  # With a data key that the other server does not have.
            assert await asyncio.to_thread(provider.decrypting.wait, 10)
            assert (await other("GET", "/version"))[0] == 200
            provider.may_decrypt.set()

            unreadable = other.running.store.collection("core/secrets").unreadable
            await until(lambda: other.running.store.collection("core/secrets").get("default/s") or unreadable)
            assert await password(other, "s") == PLAIN
    finally:
        provider.close()
