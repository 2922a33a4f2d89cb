"""Check of a project with an out-of-process plugin: start it, negotiate, and call the methods of each capability."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nodeagent.base import yamlsafe
from nodeagent.base.aio import SystemClock
from nodeagent.base.plugin_rpc import RpcError, is_socket
from nodeagent.contracts.eviction import EvictionCandidate
from nodeagent.contracts.runtime import ContainerConfig
from nodeagent.errors import NodeAgentError
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Container, Pod, PodSpec, PodStatus, Volume
from nodeagent_plugins.external_plugins.admission import Admission
from nodeagent_plugins.external_plugins.container_mutation import ContainerMutation
from nodeagent_plugins.external_plugins.credentials import fetch_credentials
from nodeagent_plugins.external_plugins.eviction import Eviction
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.node_checks import call_check_node
from nodeagent_plugins.external_plugins.node_report import NodeReporter
from nodeagent_plugins.external_plugins.notifications import Notifications
from nodeagent_plugins.external_plugins.pod_source import ExternalPodSource
from nodeagent_plugins.external_plugins.process import Executable, Process, StartError
from nodeagent_plugins.external_plugins.session import NegotiationError, Session
from nodeagent_plugins.external_plugins.settings import CAPABILITIES, SCHEMA, ExternalPlugin, parse, problems_of
from nodeagent_plugins.external_plugins.volumes import ExternalVolumeKind

FILE_NAME = "nodeagent-plugin.yaml"
_LINES = 10
"""Number of the last lines of output that are displayed after a problem."""
_POLL_SECONDS = 0.02
_SET_SECONDS = 10.0
_NODE = "node-1"
_CONTAINER = Container(name="main", image="registry.example/app:1")
_POD = Pod(
    metadata=ObjectMeta(name="example", namespace="default", uid="00000000-0000-4000-8000-000000000001"),
    spec=PodSpec(containers=[_CONTAINER], node_name=_NODE),
)

DeadlineOf = Callable[[str], float]


async def check_project(directory: Path, *, deadline_of: DeadlineOf) -> Sequence[str]:
    """Return the problems of the plugin that ``nodeagent-plugin.yaml`` in *directory* describes."""
    try:
        plugin = await asyncio.to_thread(_read, directory)
    except ValueError as error:
        return str(error).splitlines()
    with tempfile.TemporaryDirectory(prefix="nodeagent-") as temporary:
        output: deque[str] = deque(maxlen=_LINES)
        executable = Executable(plugin, Path(temporary) / "s", None, None, SystemClock(), output.append)
        try:
            async with executable.running() as process:
                problems = await _check_process(plugin, executable.socket, process, deadline_of)
        except (StartError, NegotiationError) as error:
            problems = [str(error)]
    return [*problems, *(f"output of the plugin: {line}" for line in output)] if problems else ()


def _read(directory: Path) -> ExternalPlugin:
    """Return the plugin that the file describes.

    Its command is relative to *directory*, or found next to the executable of Python or in ``PATH``.

    :raises ValueError: the file is invalid; the message has a line per problem.
    """
    try:
        document = yamlsafe.load((directory / FILE_NAME).read_bytes())
    except (OSError, yamlsafe.YamlError) as error:
        raise ValueError(f"{FILE_NAME}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ValueError(f"{FILE_NAME}: must be a map with the name of the plugin")  # noqa: TRY004  part of a list
    entry: dict[str, Any] = {key: value for key, value in document.items() if key != "name"}
    command = entry.get("command")
    if isinstance(command, list) and command and isinstance(command[0], str):
        entry["command"] = [_resolve(command[0], directory), *command[1:]]
        entry.setdefault("workingDirectory", str(directory.resolve()))
    settings = {"plugins": {document["name"]: entry}}
    problems = _schema_problems(settings) or [(each.path, each.rule) for each in problems_of(settings, is_root=True)]
    if problems:
        prefix = f"plugins.{document['name']}"
        lines = (f"{FILE_NAME}: {path.removeprefix(prefix).lstrip('.') or 'name'}: {rule}" for path, rule in problems)
        raise ValueError("\n".join(lines))
    return parse(settings)[0]


def _resolve(executable: str, directory: Path) -> str:
    """Return the absolute path of an executable, unchanged if it is not found."""
    if "/" in executable:
        return str(directory.resolve() / executable)  # A link in a virtual environment must not be followed.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return shutil.which(executable, path=path) or executable


def _schema_problems(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    import jsonschema

    errors = jsonschema.Draft202012Validator(dict(SCHEMA)).iter_errors(settings)
    return [(".".join(map(str, error.absolute_path)), error.message) for error in errors]


async def _check_process(
    plugin: ExternalPlugin, socket: Path, process: Process, deadline_of: DeadlineOf
) -> Sequence[str]:
    """Connect to a started plugin and call the methods of each capability."""
    clock = SystemClock()
    due = clock.now() + plugin.start_seconds
    while not await asyncio.to_thread(is_socket, str(socket)):
        if process.exited.is_set():
            return [f"the plugin {process.result()} before it served its socket"]
        if clock.now() > due:
            return [f"the plugin did not serve its socket within {plugin.start_seconds:g} s"]
        await clock.sleep(_POLL_SECONDS)
    session = Session(plugin, _NODE, clock)
    problems = []
    async with session.opened(str(socket)):
        exercise = _Exercise(session, HookCalls(session, deadline_of), socket)
        for capability in sorted(plugin.capabilities):
            try:
                await CHECKS[capability](exercise)
            except (NodeAgentError, RpcError, TimeoutError) as error:
                problems.append(f"capability {capability}: {str(error) or 'did not respond in time'}")
            if process.exited.is_set():
                return [*problems, f"capability {capability}: the plugin {process.result()}"]
    return problems


class _Exercise:
    """Calls of the methods of each capability with an example pod.

    :raises NodeAgentError: a call failed, or a response is invalid.
    """

    def __init__(self, session: Session, call: HookCalls, socket: Path) -> None:
        self._session, self._call, self._socket = session, call, socket

    async def admission(self) -> None:
        await Admission(self._call).nodeagent_admit_pod(_POD)

    async def eviction(self) -> None:
        hooks = Eviction(self._call)
        await hooks.nodeagent_rank_pods_for_eviction("memory.available", [EvictionCandidate(_POD, None)])
        await hooks.nodeagent_permit_eviction(_POD, "memory.available")

    async def container_mutation(self) -> None:
        config = ContainerConfig(name=_CONTAINER.name, attempt=0, image=_CONTAINER.image, user_image=_CONTAINER.image)
        await ContainerMutation(self._call).nodeagent_mutate_container(_POD, _CONTAINER, config)

    async def notifications(self) -> None:
        hooks = Notifications(self._call)
        await hooks.nodeagent_pod_admitted(_POD)
        await hooks.nodeagent_pod_status_changed(_POD, PodStatus())
        await hooks.nodeagent_container_started(_POD, _CONTAINER, "id")
        await hooks.nodeagent_container_stopped(_POD, _CONTAINER.name, "id")
        await hooks.nodeagent_pod_terminated(_POD)
        await hooks.nodeagent_node_ready_changed(True, "")

    async def node_report(self) -> None:
        await NodeReporter(self._call).nodeagent_report_node()

    async def node_checks(self) -> None:
        await call_check_node(str(self._socket))

    async def volumes(self) -> None:
        kind, directory = ExternalVolumeKind(self._session), self._socket.with_name("volume")
        for driver in sorted(self._session.plugin.volume_drivers):
            await kind.setup(_POD, Volume(name="example", csi={"driver": driver}), directory)
            await kind.teardown(_POD.uid, directory)

    async def credentials(self) -> None:
        await fetch_credentials(self._session, "registry.example/app", _POD)

    async def pod_source(self) -> None:
        async with asyncio.timeout(_SET_SECONDS):
            async for _ in ExternalPodSource(self._session, _NODE, SystemClock()).sets():
                return


CHECKS: Mapping[str, Callable[[_Exercise], Awaitable[None]]] = MappingProxyType(
    {name: getattr(_Exercise, name) for name in CAPABILITIES}
)
"""Check of each capability."""
