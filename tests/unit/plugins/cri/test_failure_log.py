"""Tests for the log of failed CRI calls."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.errors import NotFound, RuntimeFailure, RuntimeUnavailable
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.failure_log import log_failure


def fields(record: logging.LogRecord) -> dict[str, Any]:
    names = ("podSandboxID", "containerID", "image", "err")
    return {name: value for name, value in vars(record).items() if name in names}


@pytest.mark.parametrize(
    ("request_", "message", "expected"),
    [
        (cri.RunPodSandboxRequest(), "RunPodSandbox from runtime service failed", {}),
        (
            cri.StopPodSandboxRequest(pod_sandbox_id="s"),
            "StopPodSandbox from runtime service failed",
            {"podSandboxID": "s"},
        ),
        (
            cri.CreateContainerRequest(pod_sandbox_id="s"),
            "CreateContainer in sandbox from runtime service failed",
            {"podSandboxID": "s"},
        ),
        (
            cri.StartContainerRequest(container_id="c"),
            "StartContainer from runtime service failed",
            {"containerID": "c"},
        ),
        (cri.StopContainerRequest(container_id="c"), "StopContainer from runtime service failed", {"containerID": "c"}),
        (
            cri.PullImageRequest(image=cri.ImageSpec(image="busybox")),
            "PullImage from image service failed",
            {"image": "busybox"},
        ),
    ],
)
def test_failed_call_is_logged_with_the_message_of_the_kubelet(request_, message, expected, caplog) -> None:
    name = type(request_).__name__.removesuffix("Request")

    log_failure(name, request_, RuntimeFailure("no space left"))

    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, message)
    assert fields(record) == {**expected, "err": "no space left"}


def test_removal_of_unknown_object_is_not_logged(caplog) -> None:
    log_failure("RemoveContainer", cri.RemoveContainerRequest(container_id="c"), NotFound("unknown container"))

    assert caplog.records == []


def test_failed_query_is_not_logged(caplog) -> None:
    log_failure("ContainerStatus", cri.ContainerStatusRequest(container_id="c"), NotFound("unknown container"))

    assert caplog.records == []


async def test_connection_logs_failed_call(tmp_path, caplog) -> None:
    connection = Connection(f"unix://{tmp_path}/missing.sock", timeout_seconds=5)

    with pytest.raises(RuntimeUnavailable):
        await connection.call("StartContainer", cri.StartContainerRequest(container_id="c"), "start container c")
    await connection.close()

    assert "StartContainer from runtime service failed" in caplog.messages
