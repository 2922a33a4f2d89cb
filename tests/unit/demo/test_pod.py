"""Tests for the demo's pod and its stages."""

from __future__ import annotations

from nodeagent.demo.pod import CONTAINERS, condition, make_pod, stages, waiting_message


def test_containers_share_a_volume() -> None:
    spec = make_pod("image", host_network=False)["spec"]

    assert [container["name"] for container in spec["containers"]] == list(CONTAINERS)
    assert {container["volumeMounts"][0]["name"] for container in spec["containers"]} == {spec["volumes"][0]["name"]}


def test_stages_follow_the_status() -> None:
    def condition_of(name: str) -> dict[str, str]:
        return {"type": name, "status": "True"}

    assert stages({}) == ["Created"]
    sandbox = {"conditions": [condition_of("PodReadyToStartContainers")], "phase": "Pending"}
    assert stages({"status": sandbox}) == ["Created", "Accepted", "Sandbox"]
    ready = {"conditions": [*sandbox["conditions"], condition_of("Ready")], "phase": "Running"}
    assert stages({"status": ready})[-2:] == ["Running", "Ready"]


def test_missing_condition_has_status_unknown() -> None:
    assert condition({}, "Ready") == {"status": "Unknown", "message": ""}


def test_message_of_a_waiting_container_is_returned() -> None:
    waiting = {"name": "writer", "state": {"waiting": {"reason": "ErrImagePull", "message": "no route"}}}

    assert waiting_message({"status": {"containerStatuses": [waiting]}}) == "writer: ErrImagePull: no route"
    assert waiting_message({}) == ""
