"""Tests for projected trust bundles and pod certificates, with a signer in the test."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from nodeagent.base.tls import certify, generate_ca
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until
from tests.integration.reference import ReferenceApiServer, new_api_server

from .conftest import Node, _ready

API = "/apis/certificates.k8s.io/v1beta1"
REQUESTS = f"{API}/namespaces/default/podcertificaterequests"
SIGNER = "example.com/signer"
OPTIONS = (
    "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
    "--runtime-config=certificates.k8s.io/v1beta1=true",
)


@pytest.fixture
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Running node of release 1.36 with both gates."""
    directory = tmp_path_factory.mktemp("node")
    api = new_api_server(directory)
    if isinstance(api, ReferenceApiServer):
        api.extra_options = OPTIONS
    agent = NodeAgent(directory, containerd.endpoint, api)
    agent.arguments += ["--compatibility-version", "1.36"]
    try:
        api.start("--compatibility-version=1.36", *OPTIONS)
        gates = {"ClusterTrustBundleProjection": True, "PodCertificateRequest": True}
        agent.start(failCgroupV1=False, featureGates=gates)  # The host may have cgroup v1.
        wait_until(lambda: _ready(api), "the node is Ready")
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def test_pod_receives_the_certificate_of_its_signer(node: Node) -> None:
    ca = generate_ca("signer")
    bundle = {"signerName": SIGNER, "trustBundle": ca.certificate.decode()}
    metadata = {"name": "example.com:signer:roots", "labels": {"stage": "live"}}
    node.api.request(
        "POST", f"{API}/clustertrustbundles", {"kind": "ClusterTrustBundle", "metadata": metadata, "spec": bundle}
    )
    selected = {"signerName": SIGNER, "labelSelector": {"matchLabels": {"stage": "live"}}, "path": "ca.pem"}
    certificate = {"signerName": SIGNER, "keyType": "ECDSAP256", "credentialBundlePath": "bundle.pem"}
    sources = [{"clusterTrustBundle": selected}, {"podCertificate": certificate}]
    pod = simple_pod("web", "cat /v/ca.pem /v/bundle.pem; exec sleep 600", terminationGracePeriodSeconds=1)
    pod["spec"]["volumes"] = [{"name": "v", "projected": {"sources": sources}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    node.api.create_pod({**pod, "spec": {**pod["spec"], "nodeName": "node-1"}})

    (request,) = wait_until(lambda: node.api.get(REQUESTS).get("items"), "the node requests a certificate")
    chain = sign(node, request, ca)

    running = node.phase("web", "Running")
    wait_until(lambda: node.log(running).count("-----END") == 3, "the files are complete")
    anchors, key, leaf = node.log(running).split("-----BEGIN")[1:]
    assert "-----BEGIN" + anchors == ca.certificate.decode()
    assert key.startswith(" PRIVATE KEY-----")
    assert ("-----BEGIN" + leaf).strip() == chain.strip()
    node.remove("web")


def sign(node: Node, request: dict[str, Any], ca: Any) -> str:
    """Issue the certificate of *request* and return it."""
    stub = x509.load_der_x509_csr(base64.b64decode(request["spec"]["stubPKCS10Request"]))
    public = stub.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    begin = datetime.now(UTC).replace(microsecond=0)
    end = begin + timedelta(hours=24)
    chain = certify(ca, public, "web", client=True, begin=begin, end=end).decode()
    now = begin.strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Issued", "status": "True", "reason": "Test", "message": "x", "lastTransitionTime": now}
    request["status"] = {
        "conditions": [condition],
        "certificateChain": chain,
        "notBefore": now,
        "beginRefreshAt": (begin + timedelta(hours=12)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "notAfter": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    response = node.api.request("PUT", f"{REQUESTS}/{request['metadata']['name']}/status", request)
    assert response["kind"] == "PodCertificateRequest", response
    return chain
