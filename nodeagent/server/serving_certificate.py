"""Self-signed serving certificate in ``--cert-dir``.

spec: flag.cert-dir, config.tlsCertFile
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from nodeagent.base import identity
from nodeagent.base.atomic_file import write_private
from nodeagent.base.structs import Struct
from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)

GENERATE_SECONDS = 60.0


class ServingPair(Struct, frozen=True):
    """Paths of certificate and key."""

    certificate: Path
    key: Path


def self_signed_pair(cert_dir: Path) -> ServingPair:
    """Return the paths of the self-signed certificate and key, named after the component."""
    name = identity.current().component
    return ServingPair(cert_dir / f"{name}.crt", cert_dir / f"{name}.key")


async def ensure_self_signed(cert_dir: Path, names: Sequence[str]) -> ServingPair:
    """Generate certificate and key unless a valid pair exists; only the owner can read the key.

    A child process generates them, because the required libraries are not needed afterwards.

    :raises ConfigError: the directory cannot be written.
    """
    pair = self_signed_pair(cert_dir)
    if await asyncio.to_thread(_usable, pair):
        return pair
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nodeagent.server.serving_certificate",
        str(pair.certificate),
        str(pair.key),
        *names,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(GENERATE_SECONDS):
            _, errors = await child.communicate()
    except BaseException:
        child.kill()
        await child.wait()
        raise
    if child.returncode:
        reason = errors.decode(errors="replace").strip().splitlines()[-1:] or ["unknown"]
        rule = f"failed to write the self-signed serving certificate: {reason[0]}"
        raise ConfigError([Problem("--cert-dir", "", str(cert_dir), rule)])
    _log.info("Generated a self-signed serving certificate", extra={"path": str(pair.certificate)})
    return pair


def _usable(pair: ServingPair) -> bool:
    """Return whether certificate and key exist and match."""
    if not pair.certificate.is_file() or not pair.key.is_file():
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.certificate, pair.key)
    except (OSError, ssl.SSLError) as error:
        _log.warning("Replacing invalid serving certificate", extra={"err": str(error)})
        return False
    return True


def _generate(certificate: Path, key: Path, names: Sequence[str]) -> None:
    from nodeagent.base import tls

    certificate.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    authority = tls.generate_ca(f"{names[0]}-ca@{identity.current().component}")
    pair = tls.issue(authority, names[0], names=names, server=True)
    write_private(key, pair.key)
    write_private(certificate, pair.certificate + authority.certificate, mode=0o644)


if __name__ == "__main__":
    _generate(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
