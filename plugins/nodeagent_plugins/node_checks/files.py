"""File checks: permissions of the node's files and expiry of its certificates.

The required modes and owners are those of the CIS benchmark for worker nodes.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodeagent.base import kubeconfig
from nodeagent.contracts.checks import Finding, NodeCheck, problem, warning
from nodeagent.contracts.context import ImageContext

SECRET, PUBLIC = 0o600, 0o644
SOON = timedelta(days=30)
_CheckedFile = tuple[str, Path, int]
"""Description of a file, its path, and the maximum mode."""


def checks(context: ImageContext) -> Sequence[NodeCheck]:
    """Return the checks of files."""

    async def modes() -> Sequence[Finding]:
        return await asyncio.to_thread(check_file_modes, list(files_of(context)))

    async def certificates() -> Sequence[Finding]:
        def check() -> Sequence[Finding]:
            return check_certificates(list(certificates_of(context)), context.clock.wall())

        return await asyncio.to_thread(check)

    return NodeCheck("file modes", modes), NodeCheck("certificates", certificates)


def files_of(context: ImageContext) -> Iterator[_CheckedFile]:
    """Yield the files in the configuration."""
    config, settings = context.config, context.settings
    if settings.config:
        yield "configuration", Path(settings.config), SECRET
    if settings.config_dir:
        yield from (("configuration", file, SECRET) for file in sorted(Path(settings.config_dir).glob("*.conf")))
    for path in filter(None, (settings.kubeconfig, settings.bootstrap_kubeconfig)):
        yield "kubeconfig", Path(path), SECRET
        try:
            found = kubeconfig.load(Path(path))
        except kubeconfig.KubeconfigError:
            continue
        if found.client_key.file is not None:
            yield "client key", found.client_key.file, SECRET
        if found.certificate_authority.file is not None:
            yield "CA certificate", found.certificate_authority.file, PUBLIC
    if config.authentication.x509.client_ca_file:
        yield "clientCAFile", Path(config.authentication.x509.client_ca_file), PUBLIC
    if config.tls_private_key_file:
        yield "tlsPrivateKeyFile", Path(config.tls_private_key_file), SECRET
    for key in sorted(Path(settings.cert_dir).glob("*.key")):
        yield "key", key, SECRET


def certificates_of(context: ImageContext) -> Iterator[tuple[str, bytes]]:
    """Yield the certificates in use with descriptions; unreadable ones are omitted."""
    config, settings = context.config, context.settings
    named = {
        "serving certificate": config.tls_cert_file,
        "clientCAFile": config.authentication.x509.client_ca_file,
    }
    paths = [(what, Path(file)) for what, file in named.items() if file]
    if not config.tls_cert_file:
        paths += [("serving certificate", path) for path in sorted(Path(settings.cert_dir).glob("*.crt"))]
    for what, path in paths:
        try:
            yield f"{what} {path}", path.read_bytes()
        except OSError:
            continue
    if settings.kubeconfig:
        try:
            found = kubeconfig.load(Path(settings.kubeconfig))
            for what, material in (
                ("client certificate", found.client_certificate),
                ("CA certificate", found.certificate_authority),
            ):
                if material:
                    yield f"{what} of {material.file or settings.kubeconfig}", material.read()
        except (kubeconfig.KubeconfigError, OSError):
            return


def check_file_modes(files: Sequence[_CheckedFile]) -> Sequence[Finding]:
    """Return findings for files with excessive permissions or an owner other than root."""
    found = []
    for what, path, widest in files:
        try:
            status = path.stat()
        except OSError as error:
            found.append(problem(f"{what} {path}: {error.strerror}", "create it, or correct the path"))
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & ~widest:
            text = f"{what} {path} has mode {mode:04o}; must be at most {widest:04o}"
            found.append((problem if widest == SECRET else warning)(text, f"`chmod {widest:o} {path}`"))
        if (status.st_uid, status.st_gid) != (0, 0):
            text = f"{what} {path} is owned by {status.st_uid}:{status.st_gid}, not by root"
            found.append(warning(text, f"`chown root:root {path}`"))
    return found


def check_certificates(certificates: Sequence[tuple[str, bytes]], now: datetime) -> Sequence[Finding]:
    """Return findings for certificates that have expired or will expire soon."""
    from nodeagent.base.tls import valid_until

    found = []
    for what, data in certificates:
        try:
            end = valid_until(data)
        except ValueError as error:
            found.append(problem(f"{what} is invalid: {error}", "provide a certificate in PEM format"))
            continue
        remedy = "issue a new one; rotateCertificates and serverTLSBootstrap automate the renewal"
        day = end.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
        if end <= now:
            found.append(problem(f"{what} expired on {day}", remedy))
        elif end - now < SOON:
            found.append(warning(f"{what} expires on {day}, in {(end - now).days} days", remedy))
    return found
