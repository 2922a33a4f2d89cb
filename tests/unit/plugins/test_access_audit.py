"""Tests for the audit log of accesses."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nodeagent.contracts.server import AccessRecord, AccessStage, User
from nodeagent.testing import load_plugin, make_context
from nodeagent_plugins import access_audit
from nodeagent_plugins.access_audit import AuditLog, event_of

AT = datetime(2024, 1, 2, 15, 4, 5, tzinfo=UTC)
ACCESS = AccessRecord(
    id="7e1c",
    stage=AccessStage.COMPLETE,
    user=User("ann", ("ops", "system:authenticated"), extra={"scopes": ("read",)}),
    source="10.0.0.7",
    user_agent="kubectl/v1.30\n\x1b[2J",
    method="POST",
    uri="/exec/default/web/main?command=id",
    subresource="exec",
    verb="create",
    namespace="default",
    pod="web",
    container="main",
    received_at=AT,
    recorded_at=AT + timedelta(seconds=2),
    status=101,
    sent_bytes=42,
)


def test_entry_has_the_format_of_the_audit_log_of_the_api_server() -> None:
    assert event_of(ACCESS, "node-1") == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "7e1c",
        "stage": "ResponseComplete",
        "requestURI": "/exec/default/web/main?command=id",
        "verb": "create",
        "user": {"username": "ann", "groups": ["ops", "system:authenticated"], "extra": {"scopes": ["read"]}},
        "sourceIPs": ["10.0.0.7"],
        "userAgent": "kubectl/v1.30\n\x1b[2J",
        "objectRef": {"resource": "nodes", "name": "node-1", "apiVersion": "v1", "subresource": "exec"},
        "requestReceivedTimestamp": "2024-01-02T15:04:05.000000Z",
        "stageTimestamp": "2024-01-02T15:04:07.000000Z",
        "responseStatus": {"metadata": {}, "code": 101},
        "annotations": {
            "node.kubernetes.io/method": "POST",
            "node.kubernetes.io/pod": "default/web",
            "node.kubernetes.io/container": "main",
            "node.kubernetes.io/sent-bytes": "42",
        },
    }


async def test_hook_access_recorded(tmp_path: Path) -> None:
    plugins = load_plugin(access_audit)
    plugins.provide_all("nodeagent_configure", config=None, context=make_context(tmp_path), plugins=plugins)

    await plugins.notify("nodeagent_access_recorded", access=ACCESS)

    (line,) = (tmp_path / "audit" / "access.log").read_text().splitlines()
    assert json.loads(line)["user"]["username"] == "ann"
    assert "\x1b" not in line, "no control characters reach a terminal"


async def test_audit_can_be_disabled_and_moved(tmp_path: Path) -> None:
    for settings in ({"enabled": False}, {"path": str(tmp_path / "elsewhere.log")}):
        plugins = load_plugin(access_audit)
        context = make_context(tmp_path, plugin_settings={"access_audit": settings})
        plugins.provide_all("nodeagent_configure", config=None, context=context, plugins=plugins)
        await plugins.notify("nodeagent_access_recorded", access=ACCESS)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere.log"]


def test_file_is_private_and_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "access.log"
    log = AuditLog(path, max_bytes=10, backups=2)

    for text in (b"one\n", b"two\n", b"three\n", b"four\n", b"a line that is longer than the limit\n", b"six\n"):
        log.append(text)

    assert {each.name: each.read_text() for each in path.parent.iterdir()} == {
        "access.log": "six\n",
        "access.log.1": "a line that is longer than the limit\n",
        "access.log.2": "four\n",
    }
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_rotation_without_backups_empties_the_file(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "access.log", max_bytes=5, backups=0)
    log.append(b"one\n")
    log.append(b"two\n")

    assert [each.read_text() for each in tmp_path.iterdir()] == ["two\n"]


def test_mode_of_an_existing_file_is_restricted(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("old\n")
    path.chmod(0o644)

    AuditLog(path, max_bytes=100, backups=1).append(b"new\n")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("old\nnew\n", 0o600)


def test_link_and_special_file_are_not_written(tmp_path: Path) -> None:
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(tmp_path / "victim")
    os.mkfifo(fifo)

    for path in (link, fifo):
        with pytest.raises(OSError, match=r"Too many levels|No such device|not a regular file"):
            AuditLog(path, max_bytes=100, backups=1).append(b"new\n")
    assert not (tmp_path / "victim").exists()
