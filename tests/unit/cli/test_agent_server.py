"""Tests for the endpoint of an agent's server and the credentials of its user."""

import argparse

import pytest

from nodeagent.base import identity
from nodeagent.base.tls import generate_ca
from nodeagent.cli import agent_server
from nodeagent.cli.agent_server import ServerUnreachable, add_flags, resolve, with_port
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ApiUnavailable

CONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://api.example"}}]
users: [{name: u, user: {token: from-kubeconfig}}]
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return the endpoint for command-line arguments, without a kubeconfig of the user."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def resolved(*arguments):
        parser = argparse.ArgumentParser()
        add_flags(parser)
        return resolve(parser.parse_args(arguments))

    return resolved


def test_address_gets_the_default_port():
    for address, expected in [
        ("host", "host:10250"),
        ("host:1", "host:1"),
        ("10.0.0.1", "10.0.0.1:10250"),
        ("::1", "[::1]:10250"),
        ("[::1]", "[::1]:10250"),
        ("[::1]:1", "[::1]:1"),
    ]:
        assert with_port(address) == expected


def test_agent_of_this_host_is_the_default(run):
    assert run().url == "https://127.0.0.1:10250"
    assert run("--address", "node:1").url == "https://node:1"
    assert run().authorization == ""


def test_credentials_are_those_of_the_token_file_or_the_kubeconfig(run, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "config").write_text(CONFIG)
    config = ("--kubeconfig", str(tmp_path / "config"))
    assert run(*config).authorization == "Bearer from-kubeconfig"
    assert run(*config, "--token-file", str(tmp_path / "token")).authorization == "Bearer from-file"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/config:{tmp_path}/other")
    assert run().authorization == "Bearer from-kubeconfig"
    monkeypatch.setenv("KUBECONFIG", "")
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").write_text(CONFIG)
    assert run().authorization == "Bearer from-kubeconfig"


def test_server_is_verified_unless_requested_otherwise(run):
    verified, skipped = run(), run("--insecure-skip-tls-verify")

    assert (verified.tls.check_hostname, verified.tls.verify_mode.name) == (True, "CERT_REQUIRED")
    assert (skipped.tls.check_hostname, skipped.tls.verify_mode.name) == (False, "CERT_NONE")


def test_own_certificate_is_trusted_only_for_the_agent_of_this_host(run, tmp_path, monkeypatch):
    async def address_of(node, source):
        return "192.0.2.1"

    (tmp_path / f"{identity.current().component}.crt").write_bytes(generate_ca("self-signed").certificate)
    (tmp_path / "config").write_text(CONFIG)
    monkeypatch.setattr(agent_server, "NodeSettings", lambda: NodeSettings(cert_dir=str(tmp_path)))
    monkeypatch.setattr(agent_server, "_address_of", address_of)

    def trusts(*arguments):
        return "self-signed" in str(run(*arguments).tls.get_ca_certs())

    assert trusts()
    assert not trusts("--address", "node:1")
    assert not trusts("--node", "n", "--kubeconfig", str(tmp_path / "config"))


def test_unusable_files_are_reported(run, tmp_path):
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "config").write_text("a: [")
    for arguments, text in [
        (("--token-file", str(tmp_path / "empty")), "file contains no token"),
        (("--token-file", str(tmp_path / "none")), "failed to load credentials"),
        (("--kubeconfig", str(tmp_path / "none")), "failed to load credentials"),
        (("--kubeconfig", str(tmp_path / "config")), "failed to load credentials"),
        (("--certificate-authority", str(tmp_path / "none")), "failed to load credentials"),
        (("--node", "node-1"), "--node requires a kubeconfig"),
    ]:
        with pytest.raises(ServerUnreachable, match=text):
            run(*arguments)


def test_address_of_a_node_is_looked_up(run, tmp_path, monkeypatch):
    (tmp_path / "config").write_text(CONFIG)

    statuses = []

    class Client:
        async def get(self, resource, name, *, into):
            return {"status": statuses[-1]}

        async def close(self):
            pass

    monkeypatch.setattr("nodeagent.apiclient.connect", lambda *_: Client())
    internal, external = {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "192.0.2.1"}
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}
    for status, expected in [
        ({"addresses": [external, internal], **endpoint}, "10.0.0.1:1"),
        ({"addresses": [external], **endpoint}, "192.0.2.1:1"),
        ({"addresses": [{"type": "InternalIP", "address": "fd00::1"}]}, "[fd00::1]:10250"),
        ({"addresses": [{"type": "Hostname", "address": "n"}], "daemonEndpoints": {"x": {"Port": 0}}}, "n:10250"),
    ]:
        statuses.append(status)
        endpoint_found = run("--kubeconfig", str(tmp_path / "config"), "--node", "node-1")
        assert endpoint_found.url == f"https://{expected}"
    for status in ({}, {"addresses": None}, {"addresses": [{"type": "Other", "address": "x"}]}):
        statuses.append(status)
        with pytest.raises(ServerUnreachable, match='node "node-1" has no address in its status'):
            run("--kubeconfig", str(tmp_path / "config"), "--node", "node-1")


def with_exec_plugin(tmp_path, output):
    plugin = tmp_path / "login"
    plugin.write_text(f"#!/bin/sh\n{output}\n")
    plugin.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = f"{{exec: {{apiVersion: {version}, command: {plugin}, interactiveMode: Never}}}}"
    (tmp_path / "config").write_text(CONFIG.replace("{token: from-kubeconfig}", user))
    return "--kubeconfig", str(tmp_path / "config")


def test_exec_plugin_provides_the_credentials_without_a_token_file(run, tmp_path):
    document = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "own"}}'
    config = with_exec_plugin(tmp_path, f"echo '{document}'")
    (tmp_path / "token").write_text("from-file\n")

    assert run(*config).authorization == "Bearer own"

    (tmp_path / "login").unlink()
    assert run(*config, "--token-file", str(tmp_path / "token")).authorization == "Bearer from-file"


def test_failure_of_an_exec_plugin_is_reported(run, tmp_path):
    with pytest.raises(ServerUnreachable, match=r"failed to load credentials: .*login failed with exit code 3"):
        run(*with_exec_plugin(tmp_path, "exit 3"))


def test_authority_of_the_kubeconfig_is_trusted_unless_specified(run, tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.crt").write_bytes(generate_ca(f"ca-{name}").certificate)
    cluster = f'{{server: "https://api.example", certificate-authority: {tmp_path}/first.crt}}'
    (tmp_path / "config").write_text(CONFIG.replace('{server: "https://api.example"}', cluster))
    (tmp_path / "plain").write_text(CONFIG.replace('"https://api.example"', '"http://api.example"'))
    (tmp_path / "token").write_text("from-file\n")
    config = ("--kubeconfig", str(tmp_path / "config"), "--address", "node:1")
    other = ("--certificate-authority", str(tmp_path / "second.crt"))

    def trusted(*arguments):
        found = str(run(*arguments).tls.get_ca_certs())
        return {name for name in ("first", "second") if f"ca-{name}" in found}

    assert trusted(*config) == {"first"}
    assert trusted(*config, "--token-file", str(tmp_path / "token")) == {"first"}
    assert "second" in trusted(*config, *other)
    assert trusted("--kubeconfig", str(tmp_path / "plain"), "--address", "node:1") == set()


def test_unreachable_api_server_is_reported_and_the_connection_closed(run, tmp_path, monkeypatch):
    (tmp_path / "config").write_text(CONFIG)
    closed = []

    class Client:
        async def get(self, resource, name, *, into):
            raise ApiUnavailable("no response")

        async def close(self):
            closed.append(True)

    monkeypatch.setattr("nodeagent.apiclient.connect", lambda *_: Client())

    with pytest.raises(ServerUnreachable, match='failed to get node "node-1": no response'):
        run("--kubeconfig", str(tmp_path / "config"), "--node", "node-1")
    assert closed == [True]
