"""Tests for bootstrap with a token, and for certificate rotation."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from nodeagent.base.tls import KeyPair, certify, generate_ca, issue
from tests.integration.containerd import Containerd
from tests.integration.docs.blocks import blocks
from tests.integration.programs import ApiServer, NodeAgent, wait_until

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LIFE_SECONDS = 12
CERT_HAS_EXPIRED = 10
"""Result of the verification by OpenSSL."""
RENEWAL_SECONDS = 120.0
"""Time limit for a slow host, where a request may be repeated later."""


@dataclass
class Joined:
    """Node that joined the cluster, and helpers to inspect it."""

    api: ApiServer
    agent: NodeAgent

    @property
    def pki(self) -> Path:
        return self.agent.directory / "pki"

    def certificate(self, kind: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate((self.pki / f"kubelet-{kind}-current.pem").read_bytes())

    def shown(self) -> x509.Certificate | None:
        """Return the serving certificate of the agent, verified with the cluster's CA; ``None`` if it has expired.

        A slow host may take longer to renew it than the seconds that remain.
        """
        context = ssl.create_default_context(cafile=self.api.facts["caFile"])
        try:
            with (
                socket.create_connection(("127.0.0.1", self.agent.port), timeout=5) as plain,
                context.wrap_socket(plain, server_hostname="node-1") as tls,
            ):
                return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        except ssl.SSLCertVerificationError as error:
            if error.verify_code == CERT_HAS_EXPIRED:
                return None
            raise

    def requests(self) -> list[Any]:
        return self.api.get(CSRS)["items"]

    def lease_renewed_at(self) -> datetime:
        """Return the time of the last lease renewal."""
        lease = self.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1")
        return (
            datetime.fromisoformat(lease["spec"]["renewTime"]) if "spec" in lease else datetime.min.replace(tzinfo=UTC)
        )


def allow_nodes_to_join(api: ApiServer) -> None:
    """Run the commands of the documentation page."""
    (script,) = (block.text for block in blocks("docs/joining-a-cluster.md") if "clusterrolebinding" in block.text)
    environment = {**os.environ, "KUBECONFIG": api.facts["kubeconfig"]}
    subprocess.run(["bash", "-euc", script], env=environment, timeout=60, check=True)


@pytest.fixture(scope="module")
def joined(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    directory = tmp_path_factory.mktemp("joined")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint)
    try:
        authority = api.data / "certs" / "ca.crt"
        api.start(
            "--enable-bootstrap-token-auth",
            f"--client-ca-file={authority}",
            f"--node-certificate-duration={LIFE_SECONDS}s",
            "--node-name=another",
        )
        data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
        secret = {
            "metadata": {"name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": data,
        }
        assert api.request("POST", "/api/v1/namespaces/kube-system/secrets", secret)["kind"] == "Secret"
        allow_nodes_to_join(api)
        bootstrap = yaml.safe_load(Path(api.facts["kubeconfig"]).read_text())
        bootstrap["users"][0]["user"] = {"token": "abcdef.0123456789abcdef"}
        (directory / "bootstrap.kubeconfig").write_text(json.dumps(bootstrap))
        agent.arguments = [
            f"--kubeconfig={directory / 'kubeconfig'}",
            f"--bootstrap-kubeconfig={directory / 'bootstrap.kubeconfig'}",
        ]
        agent.start(rotateCertificates=True, serverTLSBootstrap=True, nodeLeaseDurationSeconds=4)
        found = Joined(api, agent)
        wait_until(lambda: found.lease_renewed_at().year > 1, f"the node joins\n{agent.tail()}")
        yield found
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


@pytest.mark.row("config.rotateCertificates")
def test_node_joins_with_a_bootstrap_token(joined: Joined) -> None:
    signer = "kubernetes.io/kube-apiserver-client-kubelet"
    requests = [item for item in joined.requests() if item["spec"]["signerName"] == signer]
    first = min(requests, key=lambda item: item["metadata"]["creationTimestamp"])

    assert first["spec"]["username"] == "system:bootstrap:abcdef"
    kubeconfig = yaml.safe_load((joined.agent.directory / "kubeconfig").read_text())
    assert kubeconfig["users"][0]["user"]["client-certificate"] == str(joined.pki / "kubelet-client-current.pem")
    assert joined.certificate("client").subject.rfc4514_string() == "CN=system:node:node-1,O=system:nodes"
    wait_until(lambda: joined.api.get("/api/v1/nodes/node-1")["kind"] == "Node", "the node is registered")


def test_installed_api_server_issues_the_client_certificate_of_its_node(containerd: Containerd, tmp_path: Path) -> None:
    api = ApiServer(tmp_path)
    (flags,) = re.findall(r'NODEAGENT_APISERVER_FLAGS="(.*)"', Path("systemd/apiserver.env").read_text())
    agent = NodeAgent(tmp_path, containerd.endpoint, api)
    node = Joined(api, agent)
    try:
        api.start(*flags.replace("/var/lib/nodeagent-apiserver", str(api.data)).split())
        agent.start(rotateCertificates=True)

        wait_until((node.pki / "kubelet-client-current.pem").exists, f"it is issued\n{agent.tail()}")

        assert node.certificate("client").subject.rfc4514_string() == "CN=system:node:node-1,O=system:nodes"
        (request,) = node.requests()
        assert request["spec"]["username"] == "system:node:node-1"
        issued = datetime.now(UTC)
        wait_until(lambda: node.lease_renewed_at() > issued, "the lease is renewed with it", RENEWAL_SECONDS)
    finally:
        agent.stop()
        api.stop()


@pytest.mark.row("config.serverTLSBootstrap")
def test_serving_certificate_is_issued_by_the_api_server(joined: Joined) -> None:
    wait_until((joined.pki / "kubelet-server-current.pem").exists, f"it is issued\n{joined.agent.tail()}")

    shown = wait_until(joined.shown, f"a valid certificate is served\n{joined.agent.tail()}", RENEWAL_SECONDS)

    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    node = joined.api.get("/api/v1/nodes/node-1")
    addresses = {entry["address"] for entry in node["status"]["addresses"]}
    found = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert found | set(names.get_values_for_type(x509.DNSName)) == addresses
    assert not (joined.pki / "kubelet.crt").exists()
    request = next(item for item in joined.requests() if item["spec"]["signerName"].endswith("serving"))
    assert request["spec"]["username"] == "system:node:node-1"


@pytest.mark.row("config.rotateCertificates", "config.serverTLSBootstrap")
def test_both_certificates_are_rotated_at_run_time(joined: Joined) -> None:
    client, server, pid = joined.certificate("client"), joined.certificate("server"), joined.agent.pid

    def both_are_new() -> bool:
        return joined.certificate("client") != client and joined.certificate("server") != server

    wait_until(both_are_new, "both are renewed", RENEWAL_SECONDS)
    ended = max(client.not_valid_after_utc, server.not_valid_after_utc)
    wait_until(
        lambda: joined.lease_renewed_at() > ended,
        "the lease is renewed after the first certificates expired",
        RENEWAL_SECONDS,
    )

    def new_one_is_served() -> bool:
        shown = joined.shown()
        return shown is not None and shown.not_valid_after_utc > ended

    wait_until(new_one_is_served, "the new one is served", RENEWAL_SECONDS)
    assert joined.agent.alive()
    assert joined.agent.pid == pid
    renewal = [item for item in joined.requests() if item["metadata"]["name"].startswith("csr-")]
    assert {item["spec"]["username"] for item in renewal} == {"system:node:node-1"}


@pytest.mark.row("config.rotateCertificates")
def test_node_with_an_expired_certificate_joins_again(joined: Joined) -> None:
    joined.agent.stop()
    certificates = joined.api.data / "certs"
    authority = KeyPair((certificates / "ca.crt").read_bytes(), (certificates / "ca.key").read_bytes())
    past = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC)
    pair = issue(generate_ca("unused"), "unused")
    public = x509.load_pem_x509_certificate(pair.certificate).public_key()
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    ended = certify(
        authority, pem, "system:node:node-1", organizations=["system:nodes"], client=True, begin=past[0], end=past[1]
    )
    current = joined.pki / "kubelet-client-current.pem"
    current.unlink()
    current.write_bytes(ended + pair.key)
    before = datetime.now(UTC)

    joined.agent.start()

    wait_until(lambda: joined.lease_renewed_at() > before, f"the lease is renewed again\n{joined.agent.tail()}")
    assert joined.certificate("client").not_valid_after_utc > before


def test_request_of_another_user_is_ignored(joined: Joined) -> None:
    items = joined.requests()
    stolen = next(item for item in items if item["spec"]["signerName"].endswith("serving"))["spec"]
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "stolen"},
        "spec": {key: stolen[key] for key in ("request", "signerName", "usages")},
    }
    assert joined.api.request("POST", CSRS, body)["kind"] == "CertificateSigningRequest"

    wait_until(lambda: "requested by admin, not by the node" in joined.api.tail(), "the rejection is logged")

    assert not joined.api.get(f"{CSRS}/stolen").get("status")
