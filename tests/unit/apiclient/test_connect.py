"""Tests for the credentials of a connection, as files appear and change."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nodeagent.apiclient.connect import connect
from nodeagent.apiclient.http import CREDENTIALS_SECONDS, _Credentials
from nodeagent.base import kubeconfig
from nodeagent.base.tls import generate_ca, issue
from nodeagent.errors import ConfigError
from nodeagent.testing import FakeClock, make_config

CA = generate_ca("test-ca")


def write(path: Path, **user: str) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def renew(path: Path) -> None:
    pair = issue(CA, "system:node:node-1", client=True)
    path.write_bytes(pair.certificate + pair.key)


def test_missing_certificate_is_an_error_unless_pending(tmp_path: Path, clock: FakeClock) -> None:
    pair = str(tmp_path / "current.pem")
    path = write(tmp_path / "kubeconfig", **{"client-certificate": pair, "client-key": pair})
    with pytest.raises(ConfigError, match="client-certificate"):
        connect(path, make_config(), clock)
    connect(path, make_config(), clock, pending=True)


@pytest.mark.row("config.rotateCertificates")
async def test_rotated_certificate_replaces_the_kubeconfigs_credentials(tmp_path: Path, clock: FakeClock) -> None:
    pair = tmp_path / "current.pem"
    credentials = _Credentials(kubeconfig.load(write(tmp_path / "kubeconfig", token="own")), clock, pair)
    await credentials.refresh()
    first = credentials.context
    assert credentials.authorization == "Bearer own"

    renew(pair)
    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    second = credentials.context
    assert credentials.authorization == ""
    assert second is not first

    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    assert credentials.context is second
    renew(pair)
    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    assert credentials.context is not second
