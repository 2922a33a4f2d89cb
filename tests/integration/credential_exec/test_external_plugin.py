"""Test for an out-of-process plugin with credentials: agent, containerd and a registry with authentication."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.agent.plugin_node import entry, pod, running
from tests.integration.containerd import Containerd
from tests.integration.credential_exec.registry import Registry
from tests.integration.programs import wait_until


def test_images_are_pulled_with_the_credentials_of_a_plugin(
    containerd: Containerd, registry: Registry, tmp_path: Path
) -> None:
    private, unknown = registry.push("external", "private"), registry.push("other", "unknown")
    known = {private.removesuffix(":1"): next(iter(registry.users.items()))}
    vault = entry(tmp_path, "credentials")
    vault["env"]["CREDENTIALS"] = json.dumps(known)
    with running(containerd, tmp_path, {"vault": vault}) as node:
        node.api.create_pod(pod("private", container={"image": private}))
        node.api.create_pod(pod("unknown", container={"image": unknown}))

        node.phase("private", "Running")

        wait_until(lambda: "CredentialProviderFailed" in node.reasons("unknown"), "the event of the failure")
        secrets = [password for _, password in known.values()]
        assert not [secret for secret in secrets if secret in node.agent.log.read_text()]
