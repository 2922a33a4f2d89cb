"""Tests for the kubeconfig reader: the current context, and all problems of an invalid file."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.base import kubeconfig, tls
from nodeagent.base.exec_plugin import ExecCredential

EXEC_VERSION = "client.authentication.k8s.io/v1"


def write(directory: Path, cluster: dict[str, Any], user: dict[str, Any], **top: Any) -> Path:
    path = directory / "kubeconfig"
    document = {
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "apps"}}],
        "clusters": [{"name": "other", "cluster": {"server": "http://wrong"}}, {"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_bytes(msgspec.json.encode(document | top))
    return path


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture(scope="module")
def ca() -> tls.KeyPair:
    return tls.generate_ca("test")


def test_current_context_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, {"server": "https://api:6443/base/", "tls-server-name": "real"}, {"token": "secret"})

    config = kubeconfig.load(path)

    assert (config.server, config.namespace, config.tls_server_name) == ("https://api:6443/base", "apps", "real")
    assert config.authorization() == "Bearer secret"
    assert "secret" not in repr(config)


def test_only_the_configured_ca_is_trusted_and_the_name_is_verified(tmp_path: Path, ca: tls.KeyPair) -> None:
    path = write(tmp_path, {"server": "https://a", "certificate-authority-data": b64(ca.certificate)}, {})

    context = kubeconfig.load(path).ssl_context()

    assert context is not None
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_file_names_are_relative_to_the_kubeconfig(tmp_path: Path, ca: tls.KeyPair) -> None:
    pair = tls.issue(ca, "system:node:n", client=True)
    for name, content in (("ca.crt", ca.certificate), ("n.crt", pair.certificate), ("n.key", pair.key)):
        (tmp_path / name).write_bytes(content)
    user = {"client-certificate": "n.crt", "client-key": "n.key"}
    config = kubeconfig.load(write(tmp_path, {"server": "https://a", "certificate-authority": "ca.crt"}, user))

    assert config.ssl_context() is not None
    assert config.files() == [tmp_path / "ca.crt", tmp_path / "n.crt", tmp_path / "n.key"]


@pytest.mark.parametrize(
    ("present", "text"),
    [((), "client-certificate: .*/n.crt does not exist"), (("n.crt",), "client-key: .*/n.key does not")],
)
def test_missing_certificate_or_key_file_is_reported(tmp_path: Path, present: tuple[str, ...], text: str) -> None:
    for name in present:
        (tmp_path / name).touch()
    user = {"client-certificate": "n.crt", "client-key": "n.key"}
    config = kubeconfig.load(write(tmp_path, {"server": "https://a"}, user))

    with pytest.raises(kubeconfig.KubeconfigError, match=text):
        config.ssl_context()


def test_client_certificate_may_be_inline(tmp_path: Path, ca: tls.KeyPair) -> None:
    pair = tls.issue(ca, "system:node:n", client=True)
    user = {"client-certificate-data": b64(pair.certificate), "client-key-data": b64(pair.key)}
    cluster = {"server": "https://a", "certificate-authority-data": b64(ca.certificate)}

    assert kubeconfig.load(write(tmp_path, cluster, user)).ssl_context() is not None


def test_key_of_another_certificate_is_rejected(tmp_path: Path, ca: tls.KeyPair) -> None:
    one, other = (tls.issue(ca, name, client=True) for name in ("one", "other"))
    user = {"client-certificate-data": b64(one.certificate), "client-key-data": b64(other.key)}
    cluster = {"server": "https://a", "certificate-authority-data": b64(ca.certificate)}
    config = kubeconfig.load(write(tmp_path, cluster, user))

    with pytest.raises(kubeconfig.KubeconfigError, match="client-certificate: cannot be used"):
        config.ssl_context()


def test_verification_can_be_disabled(tmp_path: Path) -> None:
    config = kubeconfig.load(write(tmp_path, {"server": "https://a", "insecure-skip-tls-verify": True}, {}))

    context = config.ssl_context()

    assert context is not None
    assert context.verify_mode is ssl.CERT_NONE
    assert not any(context.cert_store_stats().values())  # those of the system would not be used


def test_token_file_is_read_at_each_use_and_precedes_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    config = kubeconfig.load(write(tmp_path, {"server": "http://a"}, {"token": "x", "tokenFile": "token"}))
    before = config.authorization()
    (tmp_path / "token").write_text("second\n")

    assert (before, config.authorization()) == ("Bearer first", "Bearer second")


def test_empty_token_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    config = kubeconfig.load(write(tmp_path, {"server": "http://a"}, {"tokenFile": "token"}))

    with pytest.raises(kubeconfig.KubeconfigError, match="is empty"):
        config.authorization()


@pytest.mark.parametrize(
    ("user", "pair"),
    [({"username": "u", "password": "p"}, b"u:p"), ({"username": "u"}, b"u:"), ({"password": "p"}, b"")],
)
def test_password_is_sent_as_basic_authorization(tmp_path: Path, user: dict[str, str], pair: bytes) -> None:
    config = kubeconfig.load(write(tmp_path, {"server": "http://a"}, user))

    assert config.authorization() == (f"Basic {b64(pair)}" if pair else "")


def test_error_lists_all_problems(tmp_path: Path) -> None:
    cluster = {"server": "ftp://a", "proxy-url": "socks5://p", "certificate-authority-data": "%"}
    user = {"exec": {"command": "login"}, "client-key-data": b64(b"key"), "token": 7}

    with pytest.raises(kubeconfig.KubeconfigError) as raised:
        kubeconfig.load(write(tmp_path, cluster, user))

    assert {fault.path for fault in raised.value.faults} == {
        "clusters[1].cluster.server",
        "clusters[1].cluster.proxy-url",
        "clusters[1].cluster.certificate-authority-data",
        "users[0].user.exec.apiVersion",
        "users[0].user.client-certificate",
        "users[0].user.token",
    }


@pytest.mark.parametrize(
    ("top", "text"),
    [
        ({"current-context": ""}, "current-context: must name a context"),
        ({"current-context": "gone"}, "'gone' must be the name of an entry of contexts"),
        ({"clusters": None}, "'c' must be the name of an entry of clusters"),
        ({"users": "none"}, "'u' must be the name of an entry of users"),
        ({"kind": "Pod"}, "kind: 'Pod' must be Config"),
    ],
)
def test_missing_entry_is_reported(tmp_path: Path, top: dict[str, Any], text: str) -> None:
    with pytest.raises(kubeconfig.KubeconfigError, match=text):
        kubeconfig.load(write(tmp_path, {"server": "https://a"}, {}, **top))


@pytest.mark.parametrize("server", ["", "api:6443", "https://", "https://a:x", "https://u:p@a", "https://a?x=1"])
def test_server_must_be_a_base_url(tmp_path: Path, server: str) -> None:
    with pytest.raises(kubeconfig.KubeconfigError, match="server"):
        kubeconfig.load(write(tmp_path, {"server": server}, {}))


@pytest.mark.parametrize("content", [b"a: [", b"\x00\xff", b"- list", b"token: 'unfinished-secret"])
def test_error_of_an_invalid_file_does_not_quote_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(content)

    with pytest.raises(kubeconfig.KubeconfigError) as raised:
        kubeconfig.load(path)

    assert "secret" not in str(raised.value)


def test_missing_or_huge_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"#" * (kubeconfig.MAX_FILE_BYTES + 1))

    with pytest.raises(kubeconfig.KubeconfigError, match="No such file"):
        kubeconfig.load(tmp_path / "none")
    with pytest.raises(kubeconfig.KubeconfigError, match="must not be over"):
        kubeconfig.load(tmp_path / "huge")


def test_plugin_receives_the_cluster_with_its_extension(tmp_path: Path, ca: tls.KeyPair) -> None:
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    cluster = {
        "server": "https://api:6443",
        "certificate-authority": "ca.crt",
        "tls-server-name": "real",
        "proxy-url": "http://proxy:3128",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}],
    }
    response = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {"token": "t"}}
    (tmp_path / "login").write_text(f"#!/bin/sh\necho $KUBERNETES_EXEC_INFO >$0.in\necho '{json.dumps(response)}'\n")
    (tmp_path / "login").chmod(0o755)
    entry = {"apiVersion": EXEC_VERSION, "command": "./login", "interactiveMode": "Never", "provideClusterInfo": True}

    config = kubeconfig.load(write(tmp_path, cluster, {"exec": entry}))
    used = config.with_credential(config.run_plugin())

    assert used.authorization() == "Bearer t"
    assert json.loads((tmp_path / "login.in").read_text())["spec"]["cluster"] == {
        "server": "https://api:6443",
        "certificate-authority-data": b64(ca.certificate),
        "tls-server-name": "real",
        "proxy-url": "http://proxy:3128",
        "config": {"audience": "a"},
    }


def test_certificate_of_the_plugin_is_used_for_tls(tmp_path: Path, ca: tls.KeyPair) -> None:
    one, other = (tls.issue(ca, name, client=True) for name in ("one", "other"))
    config = kubeconfig.load(write(tmp_path, {"server": "https://a"}, {}))

    assert config.with_credential(ExecCredential(certificate=one.certificate, key=one.key)).ssl_context() is not None
    with pytest.raises(kubeconfig.KubeconfigError, match="client-certificate: cannot be used"):
        config.with_credential(ExecCredential(certificate=one.certificate, key=other.key)).ssl_context()


def test_proxy_of_the_kubeconfig_precedes_the_environment(tmp_path: Path) -> None:
    environment = {"HTTPS_PROXY": "http://other:1"}
    server = "https://api:6443"

    own = kubeconfig.load(write(tmp_path, {"server": server, "proxy-url": "http://own:1"}, {})).proxy(environment)
    inherited = kubeconfig.load(write(tmp_path, {"server": server}, {}))

    assert (own, inherited.proxy(environment), inherited.proxy({})) == ("http://own:1", "http://other:1", "")
    with pytest.raises(kubeconfig.KubeconfigError, match="socks5://other:1' is not supported") as raised:
        inherited.proxy({"HTTPS_PROXY": "socks5://user:secret@other:1"})
    assert "secret" not in str(raised.value)


def test_users_are_listed_with_their_credentials(tmp_path: Path) -> None:
    users = [{"name": "a", "user": {"token": "t"}}, {"name": "b", "user": None}, {"name": "c"}]
    path = write(tmp_path, {"server": "https://s"}, {}, users=users)

    found, default = kubeconfig.load_users(path)

    authorizations = {name: config.authorization() for name, config in found.items()}
    assert (authorizations, default) == ({"a": "Bearer t", "b": "", "c": ""}, "u")
    for entry in ("text", {"name": "d", "user": "text"}):
        with pytest.raises(kubeconfig.KubeconfigError, match=r"users\[3\]\.user"):
            kubeconfig.load_users(write(tmp_path, {}, {}, users=[*users, entry]))
