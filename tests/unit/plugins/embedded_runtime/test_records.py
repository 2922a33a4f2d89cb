"""Tests for the records of sandboxes and containers."""

from __future__ import annotations

import os

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import NotFound
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox, new_id


def containers(tmp_path):
    return Records(tmp_path / "containers", Container, cri.ContainerConfig)


def make_container(**fields):
    config = cri.ContainerConfig(metadata={"name": "web", "attempt": 2}, labels={"a": "1"}, command=["run"])
    return Container(new_id(), "sandbox", config, "sha256:1", "ref", 17, **fields)


def test_saved_record_is_loaded_unchanged(tmp_path):
    kept = make_container(process=Process.of(os.getpid()), started_at=18, cgroups={"memory": "/x"}, layers=["l"])
    containers(tmp_path).save(kept)

    again = containers(tmp_path)

    assert again.load() == []
    assert again.get(kept.id) == kept
    assert again.get(kept.id).process.alive
    assert again.get(kept.id).running


def test_record_is_found_by_id_prefix(tmp_path):
    records = containers(tmp_path)
    records.save(kept := make_container())

    assert records.find(kept.id[:12]) is kept
    assert records.find("") is None
    with pytest.raises(NotFound, match='container "none" not found'):
        records.get("none")


def test_directory_without_record_is_returned_and_damaged_record_kept(tmp_path):
    records = containers(tmp_path)
    records.directory("half").mkdir()
    records.directory("torn").mkdir()
    (records.directory("torn") / "record.json").write_text('{"id": ')

    assert records.load() == ["half"]
    assert (records.directory("torn") / "record.json").exists()


def test_removed_record_is_deleted(tmp_path):
    records = containers(tmp_path)
    records.save(kept := make_container())

    records.forget(kept.id)

    assert records.find(kept.id) is None
    assert containers(tmp_path).load() == []


def test_process_with_a_reused_pid_is_not_alive(tmp_path):
    me = Process.of(os.getpid())

    assert me.alive
    assert not Process(me.pid, me.started + 1, me.boot).alive
    assert not Process(me.pid, me.started, "another boot").alive


def test_sandbox_is_ready_while_its_pause_process_runs():
    sandbox = Sandbox("id", cri.PodSandboxConfig(), 1, holder=Process.of(os.getpid()), namespaces=["net"])
    assert sandbox.ready
    assert sandbox.namespace("net") == f"/proc/{os.getpid()}/ns/net"
    assert sandbox.namespace("pid") == ""

    sandbox.stopped = True

    assert not sandbox.ready
