"""Tests for a FlexVolume driver, a shell script, with pods on a real runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

DRIVER = """#!/bin/sh
# Mounts a tmpfs with its options, like a driver of a network file system.
echo "$1 $2" >> {calls}
case "$1" in
init) echo '{{"status": "Success", "capabilities": {{"attach": false}}}}' ;;
mount)
  mount -t tmpfs flextest "$2" || exit 1
  printf '%s\\n' "$3" > "$2/options"
  echo '{{"status": "Success"}}' ;;
unmount) umount "$2" && echo '{{"status": "Success"}}' ;;
*) echo '{{"status": "Not supported"}}' ;;
esac
"""


@pytest.mark.row("config.volumePluginDir")
def test_new_driver_mounts_volumes_of_a_waiting_pod(containerd, tmp_path: Path) -> None:
    plugins, calls = tmp_path / "drivers", tmp_path / "calls"
    api = ApiServer(tmp_path)
    agent = NodeAgent(tmp_path, containerd.endpoint, api)
    node = Node(containerd, api, agent)
    source = {"driver": "acme/share", "options": {"share": "//filer/web"}}
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}

    def recorded(text: str) -> bool:
        return any(event["reason"] == "FailedMount" and text in event["note"] for event in api.events("web"))

    try:
        api.start()
        agent.start(volumePluginDir=str(plugins))
        command = "cat /data/options; exec sleep 1000000"
        volumes = [{"name": "data", "flexVolume": source}]
        api.create_pod(simple_pod("web", command, nodeName="node-1", volumes=volumes, container=mount))
        wait_until(lambda: recorded("no volume driver 'acme/share'"), "the missing driver is told")

        executable = plugins / "acme~share" / "share"
        executable.parent.mkdir(parents=True)
        aside = executable.with_suffix(".new")
        aside.write_text(DRIVER.format(calls=calls))
        aside.chmod(0o755)
        aside.rename(executable)
        pod = node.phase("web", "Running", 60.0)
        uid = pod["metadata"]["uid"]
        mount_path = agent.root / "pods" / uid / "volumes" / "acme~share" / "data"
        wait_until(lambda: '"share":"//filer/web"' in node.log(pod), "the pod sees the driver's file")
        assert f'"kubernetes.io/pod.uid":"{uid}"' in node.log(pod)
        assert mount_path.is_mount()

        agent.stop()
        agent.start()
        api.delete_pod("web", grace=1)
        node.gone("web")
        wait_until(lambda: f"unmount {mount_path}" in calls.read_text().splitlines(), "the driver unmounts")
        wait_until(lambda: not mount_path.exists(), "nothing of it is left")
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()
        for left in agent.root.glob("pods/*/volumes/acme~share/data"):
            subprocess.run(["umount", str(left)], check=False)
