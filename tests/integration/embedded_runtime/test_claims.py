"""Tests for resource claims on the embedded runtime, with the API server, and the DRA driver as a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.device_kills.sources import ClaimDriver
from tests.integration.agent.conftest import Node, _ready
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime
from tests.integration.programs import ApiServer, NodeAgent, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.row("card.embedded-runtime")]


@pytest.fixture
def daemon() -> Iterator[EmbeddedRuntime]:
    runtime = EmbeddedRuntime("--runner", "own")
    try:
        runtime.start()
        yield runtime
    finally:
        runtime.close()


def test_container_has_the_devices_of_its_claim(
    daemon: EmbeddedRuntime, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("c")  # The path of a socket is limited to 107 characters.
    api = ApiServer(directory)
    agent = NodeAgent(directory, daemon.endpoint, api)
    driver = ClaimDriver(directory, agent, daemon)
    node = Node(None, api, agent)  # type: ignore[arg-type]
    try:
        api.start(*driver.api_options)
        agent.start(nodeStatusUpdateFrequency="1s")
        driver.start()
        driver.publish(api)
        wait_until(lambda: _ready(api), "the node is ready")
        pod = driver.pod("claiming", 2)
        pod["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", "env | grep ^DEVICE_ | sort; exec sleep 1000000"]
        api.create_pod(pod)
        running = node.phase("claiming", "Running")

        wait_until(lambda: node.log(running).splitlines() == ["DEVICE_gpu_0=yes", "DEVICE_gpu_1=yes"], "the devices")
        node.remove("claiming")
        assert driver.in_use() == set()
    finally:
        driver.kill()
        agent.kill()
        api.stop()
