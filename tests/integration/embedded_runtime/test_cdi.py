"""Tests for CDI devices of containers on the embedded runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.contracts.runtime import ContainerSecurity, SandboxSecurity
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri.client import CriRuntime
from tests.integration.cdi_specs import KIND, NAME, SCRIPT, SEEN, write_spec
from tests.integration.cri.conftest import Pods, exited
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.embedded_runtime.test_pods import output
from tests.integration.embedded_runtime.test_user_namespaces import NAMESPACES

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


@pytest.fixture(autouse=True)
def _specs(daemon: EmbeddedRuntime) -> Iterator[None]:
    write_spec(daemon.cdi_specs)
    yield
    for path in daemon.cdi_specs.iterdir():
        path.unlink()


async def test_container_has_its_device(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox()

    assert await output(cri, pods, sandbox_id, SCRIPT, cdi_devices=(NAME,)) == SEEN


async def test_device_of_an_annotation_is_added(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox()

    lines = await output(cri, pods, sandbox_id, "echo $SENSOR", annotations={"cdi.k8s.io/plugin_1": NAME})

    assert lines == ["left"]


async def test_container_in_a_user_namespace_has_its_device(cri: CriRuntime, pods: Pods) -> None:
    sandbox_id = await pods.sandbox(security=SandboxSecurity(namespaces=NAMESPACES))
    security = ContainerSecurity(namespaces=NAMESPACES)
    owners = "; stat -c %u:%g /dev/sensor /vendor/lib"

    lines = await output(cri, pods, sandbox_id, SCRIPT + owners, cdi_devices=(NAME,), security=security)

    assert lines == [*SEEN, "0:0", "0:0"]


async def test_device_without_access_cannot_be_opened(cri: CriRuntime, pods: Pods, daemon: EmbeddedRuntime) -> None:
    node = {"path": "/dev/sensor", "type": "c", "major": 1, "minor": 11, "permissions": "none", "fileMode": 0o600}
    write_spec(daemon.cdi_specs, deviceNodes=[node])
    sandbox_id = await pods.sandbox()
    script = "stat -c %a,%t,%T /dev/sensor; cat /dev/sensor 2>&1 | grep -o 'not permitted'"

    assert await output(cri, pods, sandbox_id, script, cdi_devices=(NAME,)) == ["600,1,b", "not permitted"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{KIND}=right", f"unresolvable CDI devices {KIND}=right: not defined in"),
        ("sensor", 'CDI device "sensor": must have the form vendor/class=device'),
    ],
)
async def test_unknown_device_fails_the_creation(cri: CriRuntime, pods: Pods, name: str, message: str) -> None:
    sandbox_id = await pods.sandbox()

    with pytest.raises(RuntimeFailure, match=message):
        await pods.container(sandbox_id, "true", cdi_devices=(name,))


async def test_missing_device_on_the_host_fails_the_creation(
    cri: CriRuntime, pods: Pods, daemon: EmbeddedRuntime
) -> None:
    sandbox_id = await pods.sandbox()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"deviceNodes": [{"path": "/dev/no-sensor"}]}, "CDI device node /dev/no-sensor: No such file"),
        ({"mounts": [{"hostPath": "/no/library", "containerPath": "/x"}]}, "CDI mount /x: /no/library does not exist"),
        ({"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}, "must be at least 1.1.0 for netDevices"),
    ]
    for edits, message in cases:
        write_spec(daemon.cdi_specs, **edits)
        with pytest.raises(RuntimeFailure, match=message):
            await pods.container(sandbox_id, "true", cdi_devices=(NAME,))


async def test_hook_runs_with_the_state_of_the_container(cri: CriRuntime, pods: Pods, daemon: EmbeddedRuntime) -> None:
    seen = write_spec(daemon.cdi_specs, hook="createRuntime")
    sandbox_id = await pods.sandbox()
    if "own" in daemon.options:
        with pytest.raises(RuntimeFailure, match=f"{NAME}: hooks and intelRdt require crun or runc"):
            await pods.container(sandbox_id, "true", cdi_devices=(NAME,))
        return

    container_id = await pods.container(sandbox_id, "true", cdi_devices=(NAME,))
    await exited(cri, container_id)

    assert json.loads(seen.read_text())["id"] == container_id
