"""Verification of client certificates in the TLS handshake.

Python's ``ssl`` can only reject a client whose certificate does not verify, where kube-apiserver continues without the
certificate. The user of a verified certificate is determined later, per request.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from pathlib import Path


def verify_client_certificates(context: ssl.SSLContext, bundles: Iterable[Path]) -> None:
    """Make *context* request a certificate from every client, and reject one that no CA in *bundles* issued.

    Clients may send no certificate. A CA in a bundle does not have to be a root. Reads the disk.

    :raises OSError: a bundle cannot be read; includes ``ssl.SSLError``, it contains no certificate.
    """
    for path in bundles:
        context.load_verify_locations(path)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A resumed session is not verified again, and its intermediate certificates are unknown.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
