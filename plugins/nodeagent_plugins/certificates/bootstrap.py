"""TLS bootstrap: kubeconfig for the first client certificate request.

spec: flag.bootstrap-kubeconfig, config.rotateCertificates
"""

from __future__ import annotations

import base64
import logging
from datetime import datetime
from pathlib import Path
from typing import Any

from nodeagent.base import kubeconfig
from nodeagent.base.atomic_file import write_private
from nodeagent.base.key_material import Material
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError
from nodeagent.errors import ConfigError, Problem
from nodeagent_plugins.certificates.pairs import describe

_log = logging.getLogger(__name__)


def prepare_kubeconfig(path: str, bootstrap: str, pair: Path, now: datetime) -> bool:
    """Write the kubeconfig *path* from *bootstrap* unless it is usable already; return whether it was written.

    The kubeconfig references *pair*, which may not exist yet. Blocks briefly.

    :raises ConfigError: the bootstrap kubeconfig is required but unusable, or *path* cannot be written.
    """
    if not path:
        rule = "is required with --bootstrap-kubeconfig: the path of the generated kubeconfig"
        raise ConfigError([Problem("--kubeconfig", "", None, rule)])
    if _good(Path(path), now):
        return False
    try:
        base = kubeconfig.load(Path(bootstrap))
    except KubeconfigError as error:
        raise ConfigError([Problem(f.source, f.path, f.value, f.rule) for f in error.faults]) from error
    import yaml

    try:
        write_private(Path(path), yaml.safe_dump(_document(base, pair), sort_keys=False).encode())
    except OSError as error:
        rule = f"failed to write: {error.strerror or error}"
        raise ConfigError([Problem("--kubeconfig", "", path, rule)]) from error
    _log.info("Wrote kubeconfig for the client certificate to be requested", extra={"path": path})
    return True


def client_pair(config: Kubeconfig) -> bytes:
    """Return the certificate and key of *config*, empty if missing or unreadable. Reads the disk."""
    if not config.client_certificate:
        return b""
    try:
        return config.client_certificate.read().rstrip() + b"\n" + config.client_key.read()
    except OSError:
        return b""


def _good(path: Path, now: datetime) -> bool:
    """Return whether the kubeconfig exists and has credentials that have not expired."""
    try:
        found = kubeconfig.load(path)
    except KubeconfigError:
        return False
    if found.client_certificate:
        held = describe(client_pair(found))
        return held is not None and held.valid(now)
    return bool(found.token or found.token_file or found.username or found.exec_plugin)


def _document(base: Kubeconfig, pair: Path) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": base.server}
    cluster |= _material("certificate-authority", base.certificate_authority)
    if base.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if base.tls_server_name:
        cluster["tls-server-name"] = base.tls_server_name
    if base.proxy_url:
        cluster["proxy-url"] = base.proxy_url
    context = {"cluster": "default-cluster", "namespace": base.namespace, "user": "default-auth"}
    user = {"client-certificate": str(pair), "client-key": str(pair)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "contexts": [{"name": "default-context", "context": context}],
        "current-context": "default-context",
        "users": [{"name": "default-auth", "user": user}],
    }


def _material(name: str, material: Material) -> dict[str, str]:
    if material.file is not None:
        return {name: str(material.file.absolute())}
    return {f"{name}-data": base64.b64encode(material.data).decode()} if material.data else {}
