"""Tests for container logs over the secured port: selection, rotation, following, confinement."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from nodeagent.contracts.runtime import ContainerState as RunState
from nodeagent.contracts.runtime import RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from nodeagent.testing import FakePodDirectory, make_pod
from tests.integration.server.conftest import serving

POD = make_pod("web", containers=["main"])
PATH = "/containerLogs/default/web/main"


def line(second, text, stream="stdout", tag="F"):
    return f"2024-01-01T00:00:{second:02}.5Z {stream} {tag} {text}\n"


class Logs:
    """Pod with two runs of its container, each with a log."""

    def __init__(self, root):
        self.directory = root / "pods" / "default_web_uid-web" / "main"
        self.directory.mkdir(parents=True)
        self.pods = FakePodDirectory(POD)
        self.current = self.directory / "1.log"
        self.write(0, line(1, "first run"))
        self.write(1, line(10, "one") + line(20, "two", "stderr") + line(30, "three"))
        self.runs(RunState.RUNNING)

    def write(self, attempt, text):
        (self.directory / f"{attempt}.log").write_text(text)

    def runs(self, state):
        """Set the state of the second run."""
        runs = [self._run(1, state), self._run(0, RunState.EXITED)]
        self.pods.runtime_pods[POD.uid] = RuntimePod(POD.uid, "web", "default", containers=runs)
        ended = [
            ContainerState(terminated=ContainerStateTerminated(exit_code=0, container_id=f"fake://{n}")) for n in (0, 1)
        ]
        now = ContainerState(running=ContainerStateRunning()) if state is RunState.RUNNING else ended[1]
        self.report(state=now, last_state=ended[0], container_id="fake://1")

    def report(self, **status):
        self.pods.statuses[POD.uid] = PodStatus(container_statuses=[ContainerStatus(name="main", **status)])

    def _run(self, attempt, state):
        path = str(self.directory / f"{attempt}.log")
        return RuntimeContainerStatus(str(attempt), "main", attempt, state, 0, 0, 0, 0, "", "", log_path=path)


@pytest.fixture
def logs(tmp_path):
    return Logs(tmp_path)


@pytest.fixture
async def node(pki, tmp_path, logs):
    async with serving(pki, tmp_path, parts={"pods": logs.pods}) as served:
        yield served


@asynccontextmanager
async def following(node, query="follow=true"):
    """Yield a function that reads the next lines."""
    connector = aiohttp.TCPConnector(ssl=node.pki.client("admin"))
    async with aiohttp.ClientSession(connector=connector) as session:
        url = f"https://127.0.0.1:{node.server.port}{PATH}?{query}"
        async with session.get(url) as response:

            async def read(count):
                async with asyncio.timeout(5):
                    return (await response.content.readexactly(count)).decode()

            read.to_end = lambda: asyncio.wait_for(response.text(), 5)
            yield read


@pytest.mark.row("path.agent.exec-attach-logs-portforward")
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "one\ntwo\nthree\n"),
        (
            "timestamps=true",
            "".join(f"2024-01-01T00:00:{n}0.500000000Z {t}\n" for n, t in [(1, "one"), (2, "two"), (3, "three")]),
        ),
        ("tailLines=2", "two\nthree\n"),
        ("tailLines=0", ""),
        ("tailLines=9", "one\ntwo\nthree\n"),
        ("tail=1", "three\n"),
        ("tail=all", "one\ntwo\nthree\n"),
        ("sinceTime=2024-01-01T00:00:20Z", "two\nthree\n"),
        ("sinceTime=2024-01-01T01:00:30%2B01:00", "three\n"),
        ("limitBytes=5", "one\nt"),
        ("stream=Stderr", "two\n"),
        ("previous=true", "first run\n"),
    ],
)
async def test_requested_part_is_sent(node, query, expected):
    status, text, headers = await node.fetch(f"{PATH}?{query}", tls=node.pki.client("admin"))

    assert (status, text) == (200, expected)
    assert headers["Content-Type"].startswith("text/plain")


async def test_since_seconds_is_relative_to_now(node, logs):
    logs.write(1, f"{node.clock.wall().strftime('%Y-%m-%dT%H:%M:%SZ')} stdout F now\n")
    await node.clock.advance(10)

    _, far, _ = await node.fetch(f"{PATH}?sinceSeconds=20", tls=node.pki.client("admin"))
    _, near, _ = await node.fetch(f"{PATH}?sinceSeconds=5", tls=node.pki.client("admin"))

    assert (far, near) == ("now\n", "")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("tailLines=x", 400),
        ("tailLines=1_0", 400),
        ("limitBytes=%201", 400),
        ("sinceTime=2024-01-01", 400),
        ("follow=maybe", 400),
        ("sinceTime=yesterday", 400),
        ("tailLines=-1", 422),
        ("limitBytes=0", 422),
        ("sinceSeconds=0", 422),
        ("sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z", 422),
        ("stream=Other", 422),
    ],
)
async def test_invalid_query_is_rejected(node, query, status):
    assert (await node.fetch(f"{PATH}?{query}", tls=node.pki.client("admin")))[0] == status


@pytest.mark.parametrize("path", ["/containerLogs/default/none/main", "/containerLogs/default/web/none"])
async def test_unknown_pod_or_container_is_not_found(node, path):
    assert (await node.fetch(path, tls=node.pki.client("admin")))[0] == 404


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("ImagePullBackOff", "trying and failing to pull image"), ("ContainerCreating", "ContainerCreating")],
)
async def test_waiting_container_reports_its_reason(node, logs, reason, shown):
    logs.report(state=ContainerState(waiting=ContainerStateWaiting(reason=reason)))

    status, text, _ = await node.fetch(PATH, tls=node.pki.client("admin"))
    _, previous, _ = await node.fetch(f"{PATH}?previous=true", tls=node.pki.client("admin"))

    assert (status, text) == (400, f'container "main" in pod "web" is waiting to start: {shown}\n')
    assert previous == 'previous terminated container "main" in pod "web" not found\n'


async def test_container_in_backoff_returns_the_log_of_its_last_run(node, logs):
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1, container_id="fake://0"))
    logs.report(state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")), last_state=ended)

    assert (await node.fetch(PATH, tls=node.pki.client("admin")))[:2] == (200, "first run\n")


async def test_partial_lines_are_joined_and_docker_format_is_parsed(node, logs):
    logs.write(
        1,
        line(1, "be", tag="P")
        + line(1, "gin")
        + "torn\n"
        + line(2, "x:y", tag="F:extra")
        + line(3, " indented ")
        + '{"log":"old\\n","stream":"stdout","time":"2024-01-01T00:00:04Z"}\n',
    )

    _, text, _ = await node.fetch(f"{PATH}?timestamps=true", tls=node.pki.client("admin"))

    assert text.splitlines() == [
        "2024-01-01T00:00:01.500000000Z begin",
        "2024-01-01T00:00:02.500000000Z x:y",
        "2024-01-01T00:00:03.500000000Z  indented ",
        "2024-01-01T00:00:04.000000000Z old",
    ]


@pytest.mark.row("card.logs")
async def test_following_continues_over_rotation_until_the_exit(node, logs):
    async with following(node, "follow=true&tailLines=1") as read:
        assert await read(6) == "three\n"
        with logs.current.open("a") as file:
            file.write(line(31, "four"))
        assert await read(5) == "four\n"

        with logs.current.open("a") as file:
            logs.current.rename(logs.current.with_suffix(".log.20240101-000000"))
            file.write(line(32, "last of the old"))
            file.flush()
        logs.write(1, line(33, "first of the new"))
        assert await read(16) == "last of the old\n"
        await node.clock.advance(1)
        assert await read(17) == "first of the new\n"

        with logs.current.open("a") as file:
            file.write(line(34, "end"))
        logs.runs(RunState.EXITED)
        await node.clock.advance(1)
        assert await read.to_end() == "end\n"


async def test_disconnected_follower_releases_its_files(node, logs):
    async with following(node) as read:
        await read(14)
    before = len(list(logs.directory.iterdir()))
    async with following(node) as first, following(node) as second:
        await first(14), await second(14)
        with logs.current.open("a") as file:
            file.write(line(31, "four"))
        both = await first(5), await second(5)

    assert both == ("four\n", "four\n")
    assert before == 2


async def test_symbolic_link_instead_of_a_log_is_not_followed(node, logs, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(line(1, "secret"))
    logs.current.unlink()
    logs.current.symlink_to(secret)
    status, text, _ = await node.fetch(PATH, tls=node.pki.client("admin"))

    logs.current.unlink()
    neighbor = logs.directory.parent / "neighbor.log"
    neighbor.write_text(line(1, "secret"))
    logs.current.symlink_to(Path("..") / neighbor.name)  # It stays in the log directory.
    beside, also, _ = await node.fetch(PATH, tls=node.pki.client("admin"))

    logs.current.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.log").write_text(line(1, "secret"))
    for file in logs.directory.iterdir():
        file.unlink()
    logs.directory.rmdir()
    logs.directory.symlink_to(elsewhere)
    other, more, _ = await node.fetch(PATH, tls=node.pki.client("admin"))

    assert (status, beside, other) == (500, 500, 500)
    assert "secret" not in text + also + more.replace(str(tmp_path), "")


async def test_large_log_is_sent_completely(node, logs):
    logs.write(1, "".join(line(n % 60, f"{n:06} {'x' * 90}") for n in range(30_000)))

    _, text, _ = await node.fetch(PATH, tls=node.pki.client("admin"))

    assert [part[:6] for part in text.splitlines()] == [f"{n:06}" for n in range(30_000)]
