"""Tests for the server of an agent on a real runtime, with authorization by the bundled API server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest

from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

SCRIPT = "i=0; while true; do echo line $i; i=$((i+1)); sleep 0.2; done"


@dataclass
class Node:
    agent: NodeAgent
    api: ApiServer

    @asynccontextmanager
    async def session(self, token=None):
        """Yield a client with the operator's token."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # The certificate is self-signed.
        headers = {"Authorization": f"Bearer {token or self.api.facts['token']}"}
        async with aiohttp.ClientSession(
            f"https://127.0.0.1:{self.agent.port}", connector=aiohttp.TCPConnector(ssl=context), headers=headers
        ) as session:
            yield session
        await asyncio.sleep(0.1)  # aiohttp closes TLS transports with a short delay.


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory = tmp_path_factory.mktemp("served")
    api = ApiServer(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start()
        agent.start()
        api.create_pod(simple_pod("talker", SCRIPT, nodeName="node-1"))

        def runs():
            pod = api.pod("talker")
            return pod and pod.get("status", {}).get("phase") == "Running"

        wait_until(runs, "the pod runs")
        yield Node(agent, api)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


async def run(session, *command):
    """Run *command* in the pod over a WebSocket; return its output and its exit status."""
    query = [("command", part) for part in command] + [("output", "1"), ("error", "1")]
    output, status = b"", None
    async with session.ws_connect(
        "/exec/default/talker/main", params=query, protocols=["v4.channel.k8s.io"], max_msg_size=0
    ) as socket:
        async with asyncio.timeout(20):
            async for message in socket:
                if message.data[:1] == b"\x03":
                    status = json.loads(message.data[1:])
                else:
                    output += message.data[1:]
    return output, status


@pytest.mark.row("path.agent.exec-attach-logs-portforward")
async def test_exec_runs_a_command(node):
    async with node.session() as session:
        output, status = await run(session, "echo", "hello world")
        _, failed = await run(session, "sh", "-c", "exit 3")
        large, _ = await run(session, "sh", "-c", "head -c 3000000 /dev/zero")

    assert (output, status["status"]) == (b"hello world\n", "Success")
    assert failed["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert len(large) == 3_000_000


@pytest.mark.row("path.agent.exec-attach-logs-portforward", "card.logs")
async def test_container_log_is_followed(node):
    async with (
        node.session() as session,
        session.get("/containerLogs/default/talker/main", params={"tailLines": "1", "follow": "1"}) as response,
    ):
        async with asyncio.timeout(10):
            first = (await response.content.readline()).split()
            second = (await response.content.readline()).split()

    assert int(second[1]) == int(first[1]) + 1


async def test_other_endpoints_respond(node):
    async with node.session() as session:
        async with session.post("/run/default/talker/main", params={"cmd": "echo out"}) as response:
            assert (response.status, await response.text()) == (200, "out\n")
        for path in ("/pods", "/runningpods/"):
            async with session.get(path) as response:
                pods = (await response.json())["items"]
                assert "talker" in [pod["metadata"]["name"] for pod in pods]
        for path in ("/healthz", "/metrics", "/configz", "/logs/", "/debug/pprof/goroutine"):
            async with session.get(path) as response:
                assert response.status == 200, path


@pytest.mark.row("config.authentication", "config.authorization")
async def test_user_without_permission_is_forbidden(node):
    api = node.api
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest"}}
    api.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.request("POST", "/api/v1/namespaces/default/serviceaccounts/guest/token", body)["status"]["token"]
    async with node.session(token) as session, session.get("/pods") as response:
        guest = response.status, await response.text()
    async with node.session("made-up") as session, session.get("/pods") as response:
        unauthenticated = response.status

    user = "system:serviceaccount:default:guest"
    assert guest == (403, f"Forbidden (user={user}, verb=get, resource=nodes, subresource=proxy)")
    assert unauthenticated == 401


async def test_port_forward_reaches_the_pod(node):
    async with node.session() as session:
        serve = "(echo pong | nc -l -p 7777 >/dev/null) >/dev/null 2>&1 </dev/null &"
        listens = "until grep -q ':1E61 0*:0000 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
        await run(session, "sh", "-c", f"{serve} {listens}")
        got = b""
        async with session.ws_connect(
            "/portForward/default/talker", params={"port": "7777"}, protocols=["v4.channel.k8s.io"]
        ) as socket:
            async with asyncio.timeout(10):
                async for message in socket:
                    got += message.data[1:] if message.data[:1] == b"\x00" else b""
                    if b"pong" in got:
                        break

    assert b"pong" in got
