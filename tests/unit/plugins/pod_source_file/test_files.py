"""Manifests are read once a change; what is no good manifest is named and disturbs nothing else."""

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
def folder(tmp_path):
    path = tmp_path / "manifests"
    path.mkdir()
    return path


@pytest.fixture
def files(folder):
    return ManifestFiles(folder, "node-1", lambda: NOW)


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


def test_a_path_that_does_not_exist_has_no_pods(tmp_path):
    assert ManifestFiles(tmp_path / "none", "n", lambda: NOW).scan().pods == []


def test_a_single_file_is_read(tmp_path):
    write(tmp_path / "one.yaml", POD.format(name="one", tag=1))
    assert names(ManifestFiles(tmp_path / "one.yaml", "n", lambda: NOW).scan()) == ["one-n"]


def test_the_pod_gets_what_server_and_scheduler_would_have_given(files, folder):
    write(folder / "web.yaml", POD.format(name="web", tag=1))

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


def test_the_uid_follows_from_content_node_and_path(folder):
    write(folder / "web.yaml", POD.format(name="web", tag=1))

    def uid(node="n", path="web.yaml"):
        return ManifestFiles(folder / path, node, lambda: NOW).scan().pods[0].uid

    first = uid()
    assert uid() == first
    assert uid(node="m") != first
    write(folder / "copy.yaml", (folder / "web.yaml").read_text())
    assert uid(path="copy.yaml") != first
    write(folder / "web.yaml", "# a comment changes nothing\n" + POD.format(name="web", tag=1))
    assert uid() == first
    write(folder / "web.yaml", POD.format(name="web", tag=2))
    assert uid() != first


def test_a_uid_in_the_file_is_kept_with_its_first_sighting(files, folder):
    text = POD.replace("{{name: {name}}}", "{{name: {name}, uid: mine}}")
    write(folder / "web.yaml", text.format(name="web", tag=1))
    seen = files.scan().pods[0].metadata.annotations["kubernetes.io/config.seen"]
    files._wall = lambda: datetime(2025, 1, 1, tzinfo=UTC)

    write(folder / "web.yaml", text.format(name="web", tag=2))
    (pod,) = files.scan().pods

    assert (pod.uid, pod.spec.containers[0].image) == ("mine", "busybox:2")
    assert pod.metadata.annotations["kubernetes.io/config.seen"] == seen


def test_reads_in_order_of_name_and_skips_what_editors_leave(files, folder):
    for name in ("b.yaml", "a.json", ".hidden.yaml", "c.yaml~", "d.yaml.tmp~", "e.swp", "#f.yaml#", "g.tmp"):
        write(folder / name, POD.format(name=name[0].strip(".#") or "x", tag=1))
    (folder / "directory").mkdir()
    assert names(files.scan()) == ["a-node-1", "b-node-1"]


def test_unchanged_files_are_not_read_again(files, folder, monkeypatch):
    parsed = []
    real = module.static_pod
    monkeypatch.setattr(module, "static_pod", lambda *a, **k: parsed.append(k["origin"]) or real(*a, **k))
    for name in "abc":
        write(folder / f"{name}.yaml", POD.format(name=name, tag=1))
        files.scan()
    write(folder / "a.yaml", POD.format(name="a", tag=2))
    files.scan()
    (folder / "b.yaml").touch()
    files.scan()

    assert [origin[-6:] for origin in parsed] == ["a.yaml", "b.yaml", "c.yaml", "a.yaml"]


def test_a_change_that_shows_no_other_time_is_seen(files, folder):
    for tag in range(5):
        (folder / "web.yaml").write_text(POD.format(name="web", tag=tag))
        assert files.scan().pods[0].spec.containers[0].image == f"busybox:{tag}"


def test_a_file_that_is_open_for_writing_does_not_act(files, folder):
    with open(folder / "web.yaml", "w") as file:
        file.write(POD.format(name="web", tag=1))
        file.flush()
        scan = files.scan()
        assert (scan.pods, scan.unsettled) == ([], True)

    scan = files.scan()
    assert (names(scan), scan.unsettled) == (["web-node-1"], False)


def test_a_file_that_is_being_rewritten_keeps_its_pod(files, folder):
    write(folder / "web.yaml", POD.format(name="web", tag=1))
    files.scan()

    with open(folder / "web.yaml", "w") as file:
        file.write(POD.format(name="web", tag=2))
        file.flush()
        assert files.scan().pods[0].spec.containers[0].image == "busybox:1"

    assert files.scan().pods[0].spec.containers[0].image == "busybox:2"


def test_without_leases_a_file_counts_once_it_was_left_alone(files, folder, monkeypatch):
    def no_lease(descriptor, command, argument=0):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(module.fcntl, "fcntl", no_lease)
    (folder / "web.yaml").write_text(POD.format(name="web", tag=1))
    assert files.scan().unsettled

    write(folder / "web.yaml", POD.format(name="web", tag=1))
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
def test_garbage_is_named_once_and_the_others_run(files, folder, caplog, kind):
    write(folder / "good.yaml", POD.format(name="good", tag=1))
    (folder / "bad.yaml").write_bytes(GARBAGE[kind])

    for _ in range(3):
        assert names(files.scan()) == ["good-node-1"]

    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.__dict__["file"] == str(folder / "bad.yaml")
    assert record.__dict__["err"]


def test_fields_that_no_pod_has_are_named_once_and_the_pod_runs(files, folder, caplog):
    write(folder / "web.yaml", POD.format(name="web", tag="1").replace("metadata:", "spce: {}\nmetadata:"))
    for _ in range(2):
        assert names(files.scan()) == ["web-node-1"]

    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert (record.file, record.fields) == (str(folder / "web.yaml"), "spce (did you mean spec?)")


def test_each_bad_content_is_named_anew(files, folder, caplog):
    for text in ("[1]", "[2]", "[2] "):
        write(folder / "bad.yaml", text)
        files.scan()
        files.scan()
    assert len(problems(caplog)) == 3


def test_a_file_over_the_limit_is_refused(files, folder, caplog):
    with open(folder / "huge.yaml", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert files.scan().pods == []
    assert problems(caplog) == [f"is larger than {MAX_FILE_BYTES} bytes"]


def test_what_is_no_file_is_refused_without_waiting(files, folder, caplog):
    os.mkfifo(folder / "a-fifo.yaml")
    (folder / "b-null.yaml").symlink_to("/dev/null")
    (folder / "c-dangling.yaml").symlink_to("nowhere")
    (folder / "d-loop.yaml").symlink_to("d-loop.yaml")
    assert files.scan().pods == []
    files.scan()
    assert problems(caplog) == [
        "is a FIFO, not a regular file",
        "is a device, not a regular file",
        "is a symbolic link to nothing",
        "is a loop of symbolic links",
    ]


def test_a_symbolic_link_to_a_manifest_is_followed(files, folder, tmp_path):
    write(tmp_path / "real.yaml", POD.format(name="web", tag=1))
    (folder / "web.yaml").symlink_to(tmp_path / "real.yaml")
    assert names(files.scan()) == ["web-node-1"]


def test_a_file_that_turns_bad_keeps_its_pod_and_says_so(files, folder, caplog):
    caplog.set_level(logging.INFO)
    write(folder / "web.yaml", POD.format(name="web", tag=1))
    good = files.scan().pods

    write(folder / "web.yaml", "oops: [")
    assert files.scan().pods == good
    (record,) = caplog.records
    assert "default/web-node-1 goes on" in record.__dict__["consequence"]

    write(folder / "web.yaml", POD.format(name="web", tag=1))
    assert files.scan().pods == good
    assert caplog.records[-1].getMessage() == "Static pod file can be used again"


def test_a_removed_file_ends_its_pod(files, folder):
    write(folder / "web.yaml", POD.format(name="web", tag=1))
    files.scan()
    (folder / "web.yaml").unlink()
    assert files.scan().pods == []


def test_a_path_that_cannot_be_read_says_nothing_about_pods(folder, caplog):
    (folder / "loop").symlink_to("loop")
    files = ManifestFiles(folder / "loop", "n", lambda: NOW)
    assert files.scan().pods is None
    assert files.scan().pods is None
    assert len(problems(caplog)) == 1
