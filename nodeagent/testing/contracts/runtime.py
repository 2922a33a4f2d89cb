"""Contract tests for container runtimes."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from nodeagent.contracts.runtime import (
    LABEL_CONTAINER_NAME,
    ContainerConfig,
    ContainerRuntime,
    ContainerState,
    NamespaceMode,
    Namespaces,
    RuntimeContainerStatus,
    SandboxConfig,
    SandboxSecurity,
)
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.testing.pods import make_pod, sandbox_config

MakeContainer = Callable[..., ContainerConfig]
_EXIT_SECONDS = 20.0
_names = itertools.count(1)


class RuntimeContract:
    """Contract of :class:`ContainerRuntime`. Override the fixtures ``runtime`` and ``command``."""

    @pytest.fixture
    async def runtime(self) -> AsyncIterator[ContainerRuntime]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def command(self, runtime: ContainerRuntime) -> Callable[[str, int | None], dict[str, Any]]:
        """Function that returns the fields of a container with an exit code, or ``None`` to run until it is stopped.

        It is called with the container's name, so that it may prepare the runtime for it.
        """
        raise NotImplementedError

    @pytest.fixture
    def log_directory(self) -> str:
        """The directory for the logs of containers."""
        return ""

    @pytest.fixture
    async def sandbox(self, runtime: ContainerRuntime, log_directory: str) -> AsyncIterator[SandboxConfig]:
        """A sandbox configuration for this test; its sandboxes are removed afterwards."""
        name = f"contract-{next(_names)}"
        uid = str(uuid.uuid4())
        yield sandbox_config(make_pod(name, uid=uid), log_directory=log_directory)
        for sandbox in await runtime.list_sandboxes(uid):
            await runtime.stop_sandbox(sandbox.id)
            await runtime.remove_sandbox(sandbox.id)

    @pytest.fixture
    def container(self, command: Callable[[str, int | None], dict[str, Any]], sandbox: SandboxConfig) -> MakeContainer:
        """Function that returns the configuration of a container by name, attempt and exit code."""

        def make(name: str = "main", *, attempt: int = 0, exit_code: int | None = None) -> ContainerConfig:
            labels = {**sandbox.labels, LABEL_CONTAINER_NAME: name}
            fields = {"image": "image", "log_path": f"{name}_{attempt}.log", **command(name, exit_code)}
            return ContainerConfig(name=name, attempt=attempt, labels=labels, **fields)

        return make

    async def test_version_and_conditions_are_reported(self, runtime: ContainerRuntime) -> None:
        assert (await runtime.version()).name
        conditions = {condition.type: condition.status for condition in (await runtime.status()).conditions}
        assert conditions["RuntimeReady"] and conditions["NetworkReady"]

    async def test_sandbox_is_listed_with_its_configuration(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)

        (listed,) = await runtime.list_sandboxes(sandbox.uid)
        status = await runtime.sandbox_status(sandbox_id)

        assert (listed.id, listed.ready, listed.created_at > 0) == (sandbox_id, True, True)
        for reported in (listed, status):
            assert (reported.name, reported.uid, reported.namespace, reported.attempt) == (
                sandbox.name,
                sandbox.uid,
                sandbox.namespace,
                sandbox.attempt,
            )
            assert dict(reported.labels) == dict(sandbox.labels)
        assert status.ips

    async def test_sandbox_on_the_host_network_has_no_address(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig
    ) -> None:
        security = SandboxSecurity(namespaces=Namespaces(network=NamespaceMode.NODE))
        status = await runtime.sandbox_status(await runtime.run_sandbox(replace(sandbox, security=security)))
        assert (status.network_mode, list(status.ips)) == (NamespaceMode.NODE, [])

    async def test_stopping_and_removing_a_sandbox_is_idempotent(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        for _ in range(2):
            await runtime.stop_sandbox(sandbox_id)
        assert not (await runtime.sandbox_status(sandbox_id)).ready
        for _ in range(2):
            await runtime.remove_sandbox(sandbox_id)
        assert list(await runtime.list_sandboxes(sandbox.uid)) == []
        with pytest.raises(NotFound):
            await runtime.sandbox_status(sandbox_id)

    async def test_container_is_created_then_running_then_exited(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        container_id = await runtime.create_container(sandbox_id, container(), sandbox)
        created = await runtime.container_status(container_id)
        await runtime.start_container(container_id)
        running = await runtime.container_status(container_id)
        await runtime.stop_container(container_id, 1)
        exited = await runtime.container_status(container_id)

        assert [s.state for s in (created, running, exited)] == [
            ContainerState.CREATED,
            ContainerState.RUNNING,
            ContainerState.EXITED,
        ]
        assert created.created_at > 0 == created.started_at
        assert running.started_at >= running.created_at
        assert exited.finished_at >= exited.started_at > 0
        assert exited.exit_code != 0

    async def test_exit_code_and_reason_are_reported(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        for name, code in (("good", 0), ("bad", 3)):
            container_id = await runtime.create_container(sandbox_id, container(name, exit_code=code), sandbox)
            await runtime.start_container(container_id)
            status = await exited(runtime, container_id)
            assert (status.exit_code, status.reason) == (code, "Error" if code else "Completed")

    async def test_container_is_listed_with_sandbox_attempt_and_labels(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        container_id = await runtime.create_container(sandbox_id, container(attempt=4), sandbox)

        (listed,) = await runtime.list_containers(sandbox.uid)

        assert (listed.id, listed.sandbox_id, listed.name, listed.attempt) == (container_id, sandbox_id, "main", 4)
        assert listed.labels[LABEL_CONTAINER_NAME] == "main"
        assert listed.state is ContainerState.CREATED
        assert container_id in {each.id for each in await runtime.list_containers()}

    async def test_lists_are_the_same_object_until_a_change(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig
    ) -> None:
        await runtime.run_sandbox(sandbox)
        assert await runtime.list_sandboxes() is await runtime.list_sandboxes()
        assert await runtime.list_containers() is await runtime.list_containers()

    async def test_duplicate_name_and_attempt_is_rejected(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        await runtime.create_container(sandbox_id, container(), sandbox)
        with pytest.raises(RuntimeFailure):
            await runtime.create_container(sandbox_id, container(), sandbox)
        await runtime.create_container(sandbox_id, container(attempt=1), sandbox)

    async def test_stopping_a_sandbox_stops_its_containers(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        container_id = await runtime.create_container(sandbox_id, container(), sandbox)
        await runtime.start_container(container_id)
        await runtime.stop_sandbox(sandbox_id)
        assert (await runtime.container_status(container_id)).state is ContainerState.EXITED

    async def test_unknown_ids_raise_not_found_or_are_ignored(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        unknown = "0123456789abcdef" * 4
        for call in (
            runtime.sandbox_status(unknown),
            runtime.container_status(unknown),
            runtime.start_container(unknown),
            runtime.create_container(unknown, container(), sandbox),
        ):
            with pytest.raises(NotFound):
                await call
        await runtime.stop_sandbox(unknown)
        await runtime.remove_sandbox(unknown)
        await runtime.stop_container(unknown, 0)
        await runtime.remove_container(unknown)

    async def test_removing_a_container_is_idempotent(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        container_id = await runtime.create_container(sandbox_id, container(), sandbox)
        await runtime.start_container(container_id)
        for _ in range(2):
            await runtime.stop_container(container_id, 0)
            await runtime.remove_container(container_id)
        with pytest.raises(NotFound):
            await runtime.container_status(container_id)
        assert list(await runtime.list_containers(sandbox.uid)) == []

    async def test_command_is_executed_in_a_running_container(
        self, runtime: ContainerRuntime, sandbox: SandboxConfig, container: MakeContainer
    ) -> None:
        sandbox_id = await runtime.run_sandbox(sandbox)
        container_id = await runtime.create_container(sandbox_id, container(), sandbox)
        await runtime.start_container(container_id)
        assert (await runtime.exec_sync(container_id, ["true"], 10)).exit_code == 0


async def exited(runtime: ContainerRuntime, container_id: str) -> RuntimeContainerStatus:
    """Wait until a container has exited and return its status."""
    async with asyncio.timeout(_EXIT_SECONDS):
        while True:
            status = await runtime.container_status(container_id)
            if status.state is ContainerState.EXITED:
                return status
            await asyncio.sleep(0.02)
