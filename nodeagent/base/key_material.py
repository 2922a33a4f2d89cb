"""Certificates and keys of a kubeconfig, and TLS contexts with them."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Material:
    """PEM data, inline or in a file; a file is read again at each use."""

    data: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.file is not None

    def read(self) -> bytes:
        """Return the content; reads the disk if it is in a file."""
        return self.data if self.file is None else self.file.read_bytes()


NO_MATERIAL = Material()


def bare_context() -> ssl.SSLContext:
    """Return a context without CA certificates that verifies chain and host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def load_key_pair(context: ssl.SSLContext, certificate: Material, key: Material) -> None:
    """Load both; the library accepts only files, so inline data is passed through an anonymous one in memory."""
    if certificate.file is not None and key.file is not None:
        context.load_cert_chain(certificate.file, key.file, password=_no_password)
        return
    descriptor = os.memfd_create("client-pair", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.read() + b"\n" + certificate.read())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)


def _no_password() -> str:
    """Return the password of an encrypted key, instead of a prompt on the terminal."""
    return ""
