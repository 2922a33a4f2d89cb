"""The demo's pod and what is read from its state."""

from __future__ import annotations

from nodeagent.demo.pod import CONTAINERS, condition, make_pod, stages, trouble


def test_its_containers_share_a_volume() -> None:
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


def test_a_condition_that_is_not_there_is_unknown() -> None:
    assert condition({}, "Ready") == {"status": "Unknown", "message": ""}


def test_names_what_keeps_a_container_waiting() -> None:
    waiting = {"name": "writer", "state": {"waiting": {"reason": "ErrImagePull", "message": "no route"}}}

    assert trouble({"status": {"containerStatuses": [waiting]}}) == "writer: ErrImagePull: no route"
    assert trouble({}) == ""
