"""Tests for TLS bootstrap and the plugin."""

from __future__ import annotations

import base64
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeagent.base import kubeconfig
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError
from nodeagent.testing import FakeApi, load_plugin, make_config, make_context
from nodeagent_plugins import certificates
from nodeagent_plugins.certificates.bootstrap import client_pair, prepare_kubeconfig
from nodeagent_plugins.certificates.managers import client_certificate
from tests.unit.plugins.certificates.signing import AUTHORITY, START
from tests.unit.plugins.certificates.test_manager import make_pair


def write(path: Path, user: dict[str, Any], **fields: object) -> str:
    cluster = fields or {
        "server": "https://api:6443",
        "certificate-authority-data": base64.b64encode(AUTHORITY.certificate).decode(),
        "tls-server-name": "api.example",
    }
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def with_pair() -> dict[str, str]:
    certificate, marker, key = make_pair(client_certificate("node-1")).partition(b"-----BEGIN PRIVATE KEY")
    return {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(marker + key).decode(),
    }


@pytest.fixture
def bootstrap(tmp_path: Path) -> str:
    return write(tmp_path / "bootstrap.kubeconfig", {"token": "abcdef.0123456789abcdef"})


@pytest.mark.row("config.rotateCertificates")
def test_kubeconfig_is_written_from_the_bootstrap_kubeconfig(tmp_path: Path, bootstrap: str) -> None:
    path, pair = tmp_path / "kubeconfig", tmp_path / "pki" / "kubelet-client-current.pem"

    assert prepare_kubeconfig(str(path), bootstrap, pair, START)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "default-context"
    assert document["users"] == [
        {"name": "default-auth", "user": {"client-certificate": str(pair), "client-key": str(pair)}}
    ]
    found = kubeconfig.load(path)
    assert (found.server, found.namespace, found.tls_server_name) == ("https://api:6443", "team", "api.example")
    assert found.certificate_authority.data == AUTHORITY.certificate
    assert "abcdef" not in path.read_text()


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "https://api:6443"},
        {"server": "https://api:6443", "insecure-skip-tls-verify": True},
        {"server": "https://api:6443", "proxy-url": "http://proxy:3128"},
        {"server": "https://api:6443", "certificate-authority": "ca.crt"},
    ],
)
def test_cluster_of_the_bootstrap_kubeconfig_is_copied(tmp_path: Path, cluster: dict[str, Any]) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "ca.crt").write_bytes(AUTHORITY.certificate)
    bootstrap = write(tmp_path / "etc" / "bootstrap.kubeconfig", {"token": "abcdef.0123456789abcdef"}, **cluster)

    prepare_kubeconfig(str(tmp_path / "kubeconfig"), bootstrap, tmp_path / "current.pem", START)

    document = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    if "certificate-authority" in cluster:  # Relative to the directory of the bootstrap kubeconfig.
        cluster = cluster | {"certificate-authority": str(tmp_path / "etc" / "ca.crt")}
    assert document["clusters"] == [{"name": "default-cluster", "cluster": cluster}]


@pytest.mark.parametrize("hours", [1, 11])
def test_only_a_kubeconfig_without_valid_certificate_is_replaced(tmp_path: Path, bootstrap: str, hours: int) -> None:
    path = write(tmp_path / "kubeconfig", with_pair())
    before = Path(path).read_text()

    written = prepare_kubeconfig(path, bootstrap, tmp_path / "current.pem", START + timedelta(hours=hours))

    assert written == (hours > 10)
    assert (Path(path).read_text() == before) != written


@pytest.mark.parametrize(
    "user",
    [
        {"token": "own"},
        {"tokenFile": "/token"},
        {"username": "node", "password": "own"},
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/login", "interactiveMode": "Never"}},
    ],
)
def test_kubeconfig_with_other_credentials_is_not_replaced(
    tmp_path: Path, bootstrap: str, user: dict[str, Any]
) -> None:
    path = write(tmp_path / "kubeconfig", user)
    assert not prepare_kubeconfig(path, bootstrap, tmp_path / "current.pem", START)


def test_kubeconfig_without_credentials_is_replaced(tmp_path: Path, bootstrap: str) -> None:
    path = write(tmp_path / "kubeconfig", {})
    assert prepare_kubeconfig(path, bootstrap, tmp_path / "current.pem", START)


def test_kubeconfig_that_cannot_be_written_is_reported(tmp_path: Path, bootstrap: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--kubeconfig: .*failed to write: (File exists|Not a directory)$"):
        prepare_kubeconfig(str(tmp_path / "file" / "kubeconfig"), bootstrap, tmp_path / "current.pem", START)


@pytest.mark.parametrize(("path", "named"), [("", "--kubeconfig"), ("kubeconfig", "bootstrap.kubeconfig")])
def test_missing_setting_is_named(tmp_path: Path, path: str, named: str) -> None:
    bootstrap = tmp_path / "bootstrap.kubeconfig"
    with pytest.raises(ConfigError, match=named):
        prepare_kubeconfig(str(tmp_path / path) if path else "", str(bootstrap), tmp_path / "current.pem", START)


def test_missing_certificate_file_is_not_a_seed(tmp_path: Path, bootstrap: str) -> None:
    path = tmp_path / "kubeconfig"
    prepare_kubeconfig(str(path), bootstrap, tmp_path / "current.pem", START)
    assert client_pair(kubeconfig.load(path)) == b""
    assert client_pair(kubeconfig.load(Path(bootstrap))) == b""


def settings(tmp_path: Path, **paths: str) -> NodeSettings:
    return NodeSettings(node_name="node-1", root_dir=str(tmp_path), cert_dir=str(tmp_path / "pki"), **paths)


async def test_without_rotation_and_bootstrap_nothing_is_registered(tmp_path: Path) -> None:
    context = make_context(
        tmp_path,
        config=make_config(server_tls_bootstrap=True, tls_cert_file="/a", tls_private_key_file="/b"),
        api=FakeApi(),
        settings=settings(tmp_path, kubeconfig=write(tmp_path / "kubeconfig", {"token": "own"})),
    )
    load_plugin(certificates, name="certificates", context=context)
    assert len(context.tasks) == 0


async def test_standalone_node_requests_no_certificates(tmp_path: Path) -> None:
    config = make_config(server_tls_bootstrap=True, rotate_certificates=True)
    context = make_context(tmp_path, config=config, settings=settings(tmp_path))
    load_plugin(certificates, name="certificates", context=context)
    assert len(context.tasks) == 0


async def test_usable_kubeconfig_needs_no_bootstrap(tmp_path: Path, bootstrap: str) -> None:
    found = settings(
        tmp_path, kubeconfig=write(tmp_path / "kubeconfig", {"token": "own"}), bootstrap_kubeconfig=bootstrap
    )
    context = make_context(tmp_path, config=make_config(), settings=found)
    load_plugin(certificates, name="certificates", context=context)
    assert len(context.tasks) == 0


async def test_both_certificates_are_managed_if_configured(tmp_path: Path) -> None:
    context = make_context(
        tmp_path,
        config=make_config(server_tls_bootstrap=True, rotate_certificates=True),
        settings=settings(tmp_path, kubeconfig=write(tmp_path / "kubeconfig", with_pair())),
    )
    load_plugin(certificates, name="certificates", context=context)
    try:
        assert len(context.tasks) == 2
    finally:
        await context.tasks.close()
