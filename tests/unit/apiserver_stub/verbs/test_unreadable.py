"""Tests for objects whose stored value cannot be read: errors, and their deletion."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs import unreadable
from tests.unit.apiserver_stub.admission.conftest import PODS, make_call

RESOURCE = Resource("example.com", "v1", "Widget", "widgets")
STATE = {True: "object not decodable revision=7", False: "data from the storage is not transformable revision=0"}


class Stored:
    """Store with values that cannot be read."""

    def __init__(self, *keys: str, is_decrypted: bool = True) -> None:
        self.unreadable = {
            key: SimpleNamespace(problem="bad value", revision=7, is_decrypted=is_decrypted) for key in keys
        }
        self.removed: list[str] = []

    def collection(self, name: str) -> Any:
        return self

    def first_unreadable(self, prefix: str) -> Any:
        return next((item for key, item in sorted(self.unreadable.items()) if key.startswith(prefix)), None)

    async def catch_up(self, name: str) -> bool:
        return True

    async def remove_unreadable(self, name: str, key: str) -> None:
        self.removed.append(key)
        del self.unreadable[key]


def context(stored: Stored, *, unsafe: bool = True, permitted: bool = True) -> Any:
    async def authorize(user: Any, info: Any) -> tuple[bool, str]:
        assert info.verb == unreadable.VERB
        return permitted, "no rules"

    layout = SimpleNamespace(prefix="/registry", full_key=lambda storage, key: f"/registry/{storage}/{key}")
    settings: Any = {"layout": layout, "authorize": authorize}
    return SimpleNamespace(store=stored, unsafe_deletions=SimpleNamespace(**settings) if unsafe else None)


def problem(check: Any, *args: Any) -> ApiError | None:
    try:
        check(*args)
    except ApiError as error:
        return error
    return None


@pytest.mark.parametrize("is_decrypted", [True, False])
def test_object_that_cannot_be_read_is_an_error(*, is_decrypted: bool) -> None:
    stored = Stored("n/a", is_decrypted=is_decrypted)

    assert problem(unreadable.check_readable, context(stored), RESOURCE, "n/b") is None
    plain = problem(unreadable.check_readable, context(stored, unsafe=False), RESOURCE, "n/a")
    detailed = problem(unreadable.check_readable, context(stored), RESOURCE, "n/a")

    assert (plain and plain.message, detailed and detailed.code) == ("Internal error occurred: bad value", 500)
    assert detailed is not None
    assert f"Key: /{RESOURCE.storage}/n/a, ResourceVersion: 0" in detailed.message
    assert detailed.message.endswith(f"{STATE[is_decrypted]}: bad value")


@pytest.mark.parametrize(("count", "listed"), [(1, 1), (100, 100), (101, 101)])
def test_list_names_a_limited_number_of_values(count: int, listed: int) -> None:
    stored = Stored("other/x", *(f"n/{number:03}" for number in range(count)))

    error = problem(unreadable.check_all_readable, context(stored), RESOURCE, "n/")

    assert error is not None
    assert (error.code, error.reason) == (500, "StorageReadError")
    causes = (error.details or {})["causes"]
    assert (len(causes), causes[0]["field"]) == (listed, f"/registry/{RESOURCE.storage}/n/000")
    assert (causes[-1]["reason"] == "FieldValueTooMany") is (count > 100)
    plain = problem(unreadable.check_all_readable, context(stored, unsafe=False), RESOURCE, "n/")
    assert (plain and plain.message) == "Internal error occurred: bad value"
    assert problem(unreadable.check_all_readable, context(stored), RESOURCE, "empty/") is None


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, []),
        ({"dryRun": [], "propagationPolicy": "", "orphanDependents": None}, []),
        ({"dryRun": ["All"], "gracePeriodSeconds": 0}, ["dryRun", "gracePeriodSeconds"]),
        ({"orphanDependents": False, "preconditions": {}}, ["orphanDependents", "preconditions"]),
    ],
)
def test_unsafe_deletion_has_no_other_options(options: Any, names: list[str]) -> None:
    found = [message.rpartition(".")[2] for _, message, _ in unreadable.option_problems(options)]

    assert found == names


async def test_unreadable_object_is_deleted_with_a_separate_permission() -> None:
    stored, request = Stored("default/a"), make_call({"metadata": {"name": "a"}}, resource=PODS).request

    with pytest.raises(ApiError, match='not permitted to do "unsafe-delete-ignore-read-errors", reason: no rules'):
        await unreadable.delete_unreadable(context(stored, permitted=False), request, RESOURCE)
    assert stored.removed == []

    reply = await unreadable.delete_unreadable(context(stored), request, RESOURCE)
    assert (reply.code, stored.removed) == (200, ["default/a"])
    with pytest.raises(ApiError, match="is exclusively used to delete corrupt") as error:
        await unreadable.delete_unreadable(context(stored), request, RESOURCE)
    assert error.value.code == 422
