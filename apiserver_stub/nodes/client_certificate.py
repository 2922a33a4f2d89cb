"""Generated client certificate for connections to node agents."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import KeyPair, covers, generate_ca, issue

_CLIENT = "kube-apiserver-kubelet-client"
_GROUPS = ("system:masters",)
"""The server has already authorized the user of a request; its own permissions must not restrict that."""
_DAYS = 3650


def client_certificate_files(directory: Path) -> tuple[Path, Path, Path]:
    """Return the files of the certificate, its key and the CA certificate."""
    names = ("nodeagent-client.crt", "nodeagent-client.key", "nodeagent-client-ca.crt")
    certificate, key, ca_file = (directory / name for name in names)
    return certificate, key, ca_file


def generate_client_certificate(directory: Path) -> None:
    """Generate the certificate, and its CA, if they are missing or the certificate expires soon."""
    certificate, key, ca_file = client_certificate_files(directory)
    ca_key = ca_file.with_suffix(".key")
    if not (ca_file.exists() and ca_key.exists()):
        ca = generate_ca("nodeagent-apiserver-client-ca", days=_DAYS)
        write_private(ca_key, ca.key)
        write_private(ca_file, ca.certificate, mode=0o644)
        certificate.unlink(missing_ok=True)
    if not (certificate.exists() and key.exists() and covers(certificate.read_bytes(), ())):
        signer = KeyPair(ca_file.read_bytes(), ca_key.read_bytes())
        pair = issue(signer, _CLIENT, organizations=_GROUPS, client=True, days=_DAYS)
        write_private(key, pair.key)
        write_private(certificate, pair.certificate, mode=0o644)
