"""Tests for reading manifests."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime

import pytest

from nodeagent.model.pod import Toleration
from nodeagent_plugins.pod_source_file import files as module
from nodeagent_plugins.pod_source_file.files import MAX_FILE_BYTES, ManifestFiles

NOW = datetime(2024, 1, 1, 12, 30, tzinfo=UTC)
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - {{name: main, image: "busybox:{tag}"}}
"""


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "manifests"
    path.mkdir()
    return path


@pytest.fixture
def files(directory):
    return ManifestFiles(directory, "node-1", lambda: NOW)


def write(path, text):
    path.write_text(text)
    old = time.time() - 10 + write.count  # as if some time had passed between the changes
    write.count += 1
    os.utime(path, (old, old))


write.count = 0


def names(scan):
    return [pod.name for pod in scan.pods]


def problems(caplog):
    return [record.__dict__["err"] for record in caplog.records if record.levelno >= logging.ERROR]


def test_missing_path_has_no_pods(tmp_path):
    assert ManifestFiles(tmp_path / "none", "n", lambda: NOW).scan().pods == []


def test_single_file_is_read(tmp_path):
    write(tmp_path / "one.yaml", POD.format(name="one", tag=1))
    assert names(ManifestFiles(tmp_path / "one.yaml", "n", lambda: NOW).scan()) == ["one-n"]


def test_pod_gets_the_defaults_of_server_and_scheduler(files, directory):
    write(directory / "web.yaml", POD.format(name="web", tag=1))

    (pod,) = files.scan().pods

    assert (pod.name, pod.namespace, pod.spec.node_name) == ("web-node-1", "default", "node-1")
    assert len(pod.uid) == 32
    assert pod.metadata.annotations == {
        "kubernetes.io/config.hash": pod.uid,
        "kubernetes.io/config.source": "file",
        "kubernetes.io/config.seen": "2024-01-01T12:30:00.000000000Z",
    }
    assert pod.spec.tolerations == [Toleration(operator="Exists", effect="NoExecute")]
    assert pod.spec.containers[0].image_pull_policy == "IfNotPresent"
    assert pod.status.phase == "Pending"


def test_uid_depends_on_content_node_and_path(directory):
    write(directory / "web.yaml", POD.format(name="web", tag=1))

    def uid(node="n", path="web.yaml"):
        return ManifestFiles(directory / path, node, lambda: NOW).scan().pods[0].uid

    first = uid()
    assert uid() == first
    assert uid(node="m") != first
    write(directory / "copy.yaml", (directory / "web.yaml").read_text())
    assert uid(path="copy.yaml") != first
    write(directory / "web.yaml", "# a comment changes nothing\n" + POD.format(name="web", tag=1))
    assert uid() == first
    write(directory / "web.yaml", POD.format(name="web", tag=2))
    assert uid() != first


def test_uid_in_the_manifest_keeps_its_first_seen_time(files, directory):
    text = POD.replace("{{name: {name}}}", "{{name: {name}, uid: mine}}")
    write(directory / "web.yaml", text.format(name="web", tag=1))
    seen = files.scan().pods[0].metadata.annotations["kubernetes.io/config.seen"]
    files._wall = lambda: datetime(2025, 1, 1, tzinfo=UTC)

    write(directory / "web.yaml", text.format(name="web", tag=2))
    (pod,) = files.scan().pods

    assert (pod.uid, pod.spec.containers[0].image) == ("mine", "busybox:2")
    assert pod.metadata.annotations["kubernetes.io/config.seen"] == seen


def test_files_are_read_in_order_without_temporary_files(files, directory):
    for name in ("b.yaml", "a.json", ".hidden.yaml", "c.yaml~", "d.yaml.tmp~", "e.swp", "#f.yaml#", "g.tmp"):
        write(directory / name, POD.format(name=name[0].strip(".#") or "x", tag=1))
    (directory / "directory").mkdir()
    assert names(files.scan()) == ["a-node-1", "b-node-1"]


def test_unchanged_files_are_not_read_again(files, directory, monkeypatch):
    parsed = []
    real = module.static_pod
    monkeypatch.setattr(module, "static_pod", lambda *a, **k: parsed.append(k["origin"]) or real(*a, **k))
    for name in "abc":
        write(directory / f"{name}.yaml", POD.format(name=name, tag=1))
        files.scan()
    write(directory / "a.yaml", POD.format(name="a", tag=2))
    files.scan()
    (directory / "b.yaml").touch()
    files.scan()

    assert [origin[-6:] for origin in parsed] == ["a.yaml", "b.yaml", "c.yaml", "a.yaml"]


def test_change_with_the_same_timestamp_is_detected(files, directory):
    for tag in range(5):
        (directory / "web.yaml").write_text(POD.format(name="web", tag=tag))
        assert files.scan().pods[0].spec.containers[0].image == f"busybox:{tag}"


def test_file_open_for_writing_is_skipped(files, directory):
    with open(directory / "web.yaml", "w") as file:
        file.write(POD.format(name="web", tag=1))
        file.flush()
        scan = files.scan()
        assert (scan.pods, scan.unsettled) == ([], True)

    scan = files.scan()
    assert (names(scan), scan.unsettled) == (["web-node-1"], False)


def test_file_being_rewritten_keeps_its_pod(files, directory):
    write(directory / "web.yaml", POD.format(name="web", tag=1))
    files.scan()

    with open(directory / "web.yaml", "w") as file:
        file.write(POD.format(name="web", tag=2))
        file.flush()
        assert files.scan().pods[0].spec.containers[0].image == "busybox:1"

    assert files.scan().pods[0].spec.containers[0].image == "busybox:2"


def test_without_leases_a_file_must_be_unchanged_for_some_time(files, directory, monkeypatch):
    def no_lease(descriptor, command, argument=0):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(module.fcntl, "fcntl", no_lease)
    (directory / "web.yaml").write_text(POD.format(name="web", tag=1))
    assert files.scan().unsettled

    write(directory / "web.yaml", POD.format(name="web", tag=1))
    assert names(files.scan()) == ["web-node-1"]


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
GARBAGE = {
    "binary": bytes(range(256)),
    "empty": b"",
    "text": b"just words",
    "list": b"[1, 2]",
    "no-kind": b"metadata: {name: a}",
    "deployment": b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}",
    "pod-list": b"apiVersion: v1\nkind: PodList\nitems: []",
    "two-documents": (POD.format(name="a", tag=1) + "---" + POD.format(name="b", tag=1)).encode(),
    "wrong-type": POD.format(name="a", tag=1).replace("name: main", "name: [1]").encode(),
    "label-number": POD.format(name="a", tag=1).replace("{name: a}", "{name: a, labels: {v: 1}}").encode(),
    "bad-name": POD.format(name="Not_Good", tag=1).encode(),
    "no-name": b"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: b}]}",
    "no-containers": b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}",
    "broken": b"apiVersion: v1\nkind: [",
    "tag": b"!!python/object/apply:os.system ['true']",
    "deep": b"[" * 100_000,
    "bomb": BOMB.encode(),
    "nul": b"apiVersion: v1\x00",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_invalid_file_is_logged_once_and_does_not_affect_others(files, directory, caplog, kind):
    write(directory / "good.yaml", POD.format(name="good", tag=1))
    (directory / "bad.yaml").write_bytes(GARBAGE[kind])

    for _ in range(3):
        assert names(files.scan()) == ["good-node-1"]

    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["path"] == str(directory / "bad.yaml")
    assert record.__dict__["err"]


def test_unknown_fields_are_logged_once_and_ignored(files, directory, caplog):
    write(directory / "web.yaml", POD.format(name="web", tag="1").replace("metadata:", "spce: {}\nmetadata:"))
    for _ in range(2):
        assert names(files.scan()) == ["web-node-1"]

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert (record.path, record.fields) == (str(directory / "web.yaml"), "spce (did you mean spec?)")


def test_each_invalid_content_is_logged(files, directory, caplog):
    for text in ("[1]", "[2]", "[2] "):
        write(directory / "bad.yaml", text)
        files.scan()
        files.scan()
    assert len(problems(caplog)) == 3


def test_file_over_the_limit_is_rejected(files, directory, caplog):
    with open(directory / "huge.yaml", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert files.scan().pods == []
    assert problems(caplog) == [f"is larger than {MAX_FILE_BYTES} bytes"]


def test_file_of_the_maximum_size_is_read(files, directory, monkeypatch):
    size = 1 << 16
    write(directory / "web.yaml", POD.format(name="web", tag="1").ljust(size, "#"))
    monkeypatch.setattr(module, "MAX_FILE_BYTES", size)

    assert names(files.scan()) == ["web-node-1"]


def test_special_file_is_rejected_without_blocking(files, directory, caplog):
    os.mkfifo(directory / "a-fifo.yaml")
    (directory / "b-null.yaml").symlink_to("/dev/null")
    (directory / "c-dangling.yaml").symlink_to("nowhere")
    (directory / "d-loop.yaml").symlink_to("d-loop.yaml")
    assert files.scan().pods == []
    files.scan()
    assert problems(caplog) == [
        "is a FIFO, not a regular file",
        "is a device, not a regular file",
        "is a dangling symbolic link",
        "is a loop of symbolic links",
    ]


def test_symbolic_link_to_a_manifest_is_followed(files, directory, tmp_path):
    write(tmp_path / "real.yaml", POD.format(name="web", tag=1))
    (directory / "web.yaml").symlink_to(tmp_path / "real.yaml")
    assert names(files.scan()) == ["web-node-1"]


def test_invalid_change_keeps_the_pod_and_is_logged(files, directory, caplog):
    caplog.set_level(logging.INFO)
    write(directory / "web.yaml", POD.format(name="web", tag=1))
    good = files.scan().pods

    write(directory / "web.yaml", "oops: [")
    assert files.scan().pods == good
    (record,) = caplog.records
    assert "default/web-node-1 keeps its last valid content" in record.__dict__["consequence"]

    write(directory / "web.yaml", POD.format(name="web", tag=1))
    assert files.scan().pods == good
    assert caplog.records[-1].getMessage() == "Manifest file recovered"


def test_deleted_file_removes_its_pod(files, directory):
    write(directory / "web.yaml", POD.format(name="web", tag=1))
    files.scan()
    (directory / "web.yaml").unlink()
    assert files.scan().pods == []


def test_unreadable_path_keeps_its_pods(directory, caplog):
    (directory / "loop").symlink_to("loop")
    files = ManifestFiles(directory / "loop", "n", lambda: NOW)
    assert files.scan().pods is None
    assert files.scan().pods is None
    assert len(problems(caplog)) == 1
