"""Tests for the permission to create objects by patches and updates."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.create_permission import CreatePermission
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from tests.unit.apiserver_stub.admission.conftest import make_call


@pytest.mark.parametrize(
    ("verb", "allowed", "checked"),
    [("create", False, False), ("patch", True, True), ("update", True, True), ("patch", False, True)],
)
async def test_only_patches_and_updates_are_checked(verb: str, allowed: bool, checked: bool) -> None:
    checks: list[RequestInfo] = []

    async def decide(user: User, info: RequestInfo) -> tuple[bool, str]:
        assert user.name == "jane"
        checks.append(info)
        return allowed, "no rule permits it"

    call = make_call({"metadata": {"name": "web"}}, verb=verb, user="jane")
    if checked and not allowed:
        with pytest.raises(ApiError, match='pods "web" is forbidden: no rule permits it'):
            await CreatePermission(decide).validate(call)
    else:
        await CreatePermission(decide).validate(call)

    assert [(info.verb, info.resource, info.namespace, info.name) for info in checks] == (
        [("create", "pods", "default", "web")] if checked else []
    )
