"""The agent's own serving certificate: a self-signed pair in the directory of ``--cert-dir``.

spec: flag.cert-dir, config.tlsCertFile
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.base import identity
from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)

GENERATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ServingPair:
    """Where certificate and key lie."""

    certificate: Path
    key: Path


def self_signed_pair(cert_dir: Path) -> ServingPair:
    """Return where the self-signed pair belongs, by the name that others know the agent by."""
    name = identity.current().component
    return ServingPair(cert_dir / f"{name}.crt", cert_dir / f"{name}.key")


async def ensure_self_signed(cert_dir: Path, names: Sequence[str]) -> ServingPair:
    """Generate the pair unless a usable one is there; the key is readable by its owner alone.

    Generating loads libraries that the agent never needs again, so a child process does it.

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
        rule = f"cannot hold the self-signed serving certificate: {reason[0]}"
        raise ConfigError([Problem("--cert-dir", "", str(cert_dir), rule)])
    _log.info("Generated a self-signed serving certificate", extra={"file": str(pair.certificate)})
    return pair


def _usable(pair: ServingPair) -> bool:
    """Whether certificate and key are there and belong together."""
    if not pair.certificate.is_file() or not pair.key.is_file():
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.certificate, pair.key)
    except (OSError, ssl.SSLError) as error:
        _log.warning("Serving certificate is of no use and is made anew", extra={"err": str(error)})
        return False
    return True


def _generate(certificate: Path, key: Path, names: Sequence[str]) -> None:
    from nodeagent.base import tls

    certificate.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    authority = tls.generate_ca(f"{names[0]}-ca@{identity.current().component}")
    pair = tls.issue(authority, names[0], names=names, server=True)
    tls.write_private(key, pair.key)
    tls.write_private(certificate, pair.certificate + authority.certificate, mode=0o644)


if __name__ == "__main__":
    _generate(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
