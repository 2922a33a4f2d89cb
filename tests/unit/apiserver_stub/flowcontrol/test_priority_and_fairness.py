"""Tests for API priority and fairness: flow schemas, seats, queues and rejection."""

from __future__ import annotations

import asyncio
import time

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, User, parse_path
from apiserver_stub.endpoints.metrics import show_fairness
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import LevelSettings, Rejected
from apiserver_stub.flowcontrol.schemas import FlowSchema
from apiserver_stub.telemetry.exposition import Choice, Page
from tests.unit.apiserver_stub.flowcontrol.default_configuration import default_levels, default_schemas

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
NODE = User("system:node:a", groups=("system:nodes", "system:authenticated"))
ALICE = User("alice", groups=("system:authenticated",))
BOB = User("bob", groups=("system:authenticated",))
ACCOUNT = User("system:serviceaccount:web:default", groups=("system:serviceaccounts", "system:authenticated"))
SYSTEM = User(
    "system:serviceaccount:kube-system:x",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)


def info(path: str, method: str = "GET") -> RequestInfo:
    return parse_path(method, path, Query(""))


PODS = info("/api/v1/namespaces/web/pods")
LEASE = info("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", "PUT")


@pytest.mark.parametrize(
    ("user", "request_info", "schema", "level"),
    [
        (ADMIN, PODS, "exempt", "exempt"),
        (ALICE, info("/readyz"), "probes", "exempt"),
        (NODE, LEASE, "system-node-high", "node-high"),
        (NODE, info("/api/v1/nodes/a/status", "PATCH"), "system-node-high", "node-high"),
        (NODE, PODS, "system-nodes", "system"),
        (SYSTEM, LEASE, "system-leader-election", "leader-election"),
        (SYSTEM, info("/api/v1/namespaces/web/configmaps/a", "PUT"), "workload-leader-election", "leader-election"),
        (SYSTEM, PODS, "kube-system-service-accounts", "workload-high"),
        (User("system:kube-scheduler", groups=("system:authenticated",)), PODS, "kube-scheduler", "workload-high"),
        (ACCOUNT, PODS, "service-accounts", "workload-low"),
        (ALICE, PODS, "global-default", "global-default"),
        (User("stranger"), PODS, "catch-all", "catch-all"),
    ],
)
def test_request_is_classified_by_the_first_matching_schema(
    user: User, request_info: RequestInfo, schema: str, level: str
) -> None:
    fairness = PriorityAndFairness(600, 15, default_levels(), default_schemas())

    found = fairness.sort(user, request_info)

    assert (found.name, found.level) == (schema, level)
    assert fairness.sort(user, request_info) is found
    assert set(found.headers) == {"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"}


def test_classification_of_long_paths_and_users_is_not_cached() -> None:
    fairness = PriorityAndFairness(600, 15, default_levels(), default_schemas())

    for user in (ALICE, User("a" * 10_000, groups=ALICE.groups)):
        for path in ("/a", "/a" * 10_000):
            assert fairness.sort(user, info(path)).name == "global-default"

    assert len(fairness._cache) == 1


def test_seats_are_shares_of_the_total_limit() -> None:
    fairness = PriorityAndFairness(600, 15, default_levels(), default_schemas())

    assert {name: level.seats for name, level in fairness.levels.items()} == {
        "system": 74,
        "node-high": 98,
        "leader-election": 25,
        "workload-high": 98,
        "workload-low": 245,
        "global-default": 49,
        "catch-all": 13,
        "exempt": 0,
    }


class Crowd:
    """Requests of several users at a priority level with one seat."""

    def __init__(self, wait_seconds: float = 30) -> None:
        self.fairness = PriorityAndFairness(1, wait_seconds, default_levels(), default_schemas())
        self.done: list[str] = []
        self.level = self.fairness.levels["global-default"]

    async def take(self, user: User) -> None:
        admission = await self.fairness.enter(self.fairness.sort(user, PODS), user, PODS)
        self.done.append(user.name)
        await asyncio.sleep(0)
        self.fairness.leave(admission)


async def test_flow_with_many_requests_does_not_delay_other_flows() -> None:
    crowd = Crowd()
    held = await crowd.fairness.enter(crowd.fairness.sort(ALICE, PODS), ALICE, PODS)
    tasks = [asyncio.create_task(crowd.take(ALICE)) for _ in range(20)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(crowd.take(BOB)))
    await asyncio.sleep(0)
    assert crowd.level.waiting == 21

    crowd.fairness.leave(held)
    await asyncio.gather(*tasks)

    assert crowd.done.index("bob") < 10
    assert crowd.level.is_idle


async def test_exempt_requests_are_never_queued() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ADMIN, PODS)

    for _ in range(5):
        await fairness.enter(schema, ADMIN, PODS)

    assert len(fairness.levels["exempt"].executing) == 5


async def test_full_queue_rejects_requests() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    held, level = await fairness.enter(schema, ALICE, PODS), fairness.levels["global-default"]
    tasks = [asyncio.create_task(fairness.enter(schema, ALICE, PODS)) for _ in range(6 * 50 + 1)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    rejection = [task for task in tasks if task.done()]
    assert [str(task.exception()) for task in rejection] == ["queue-full"]
    assert fairness.rejected == {("global-default", "global-default", "queue-full"): 1}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert fairness.rejected["global-default", "global-default", "cancelled"] == 300
    assert level.waiting == 0
    fairness.leave(held)
    assert level.is_idle


async def test_queued_request_times_out() -> None:
    fairness = PriorityAndFairness(1, 0, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    held, level = await fairness.enter(schema, ALICE, PODS), fairness.levels["global-default"]

    with pytest.raises(Rejected, match="time-out"):
        await fairness.enter(schema, ALICE, PODS)

    assert (level.executing, level.waiting) == ({held}, 0)


async def test_metrics_of_removed_schemas_are_dropped() -> None:
    fairness = PriorityAndFairness(1, 0, default_levels(), default_schemas())
    held = await fairness.enter(fairness.sort(ALICE, PODS), ALICE, PODS)
    for number in range(20):
        own = FlowSchema(f"schema-{number}", "global-default", lambda user, _: user is BOB)
        fairness.configure(default_levels(), [own, *default_schemas()])
        with pytest.raises(Rejected, match="time-out"):
            await fairness.enter(fairness.sort(BOB, PODS), BOB, PODS)
    fairness.configure(default_levels(), default_schemas())

    series = (fairness.counts, fairness.rejected, fairness.waiting, fairness.waits)
    assert {key[0] for found in series for key in found} == {"global-default"}
    fairness.leave(held)


async def test_catch_all_level_has_no_queue() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    other = User("stranger")
    schema = fairness.sort(other, PODS)
    await fairness.enter(schema, other, PODS)

    with pytest.raises(Rejected, match="concurrency-limit"):
        await fairness.enter(schema, other, PODS)


async def test_retry_after_grows_with_repeated_rejections(monkeypatch: pytest.MonkeyPatch) -> None:
    fairness, other, now = PriorityAndFairness(1, 30, default_levels(), default_schemas()), User("stranger"), [1000.0]
    schema = fairness.sort(other, PODS)
    await fairness.enter(schema, other, PODS)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reported = []

    for _ in range(2):
        for _ in range(5):
            with pytest.raises(Rejected) as rejection:
                await fairness.enter(schema, other, PODS)
            reported.append(rejection.value.retry_seconds)
        now[0] += 1

    assert reported == [1] * 5 + [2] * 5
    assert fairness.levels["global-default"].retry_after.seconds == 1


async def test_executing_and_queued_requests_are_counted_by_schema() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema, exempt = fairness.sort(ALICE, PODS), fairness.sort(ADMIN, PODS)
    held = await fairness.enter(schema, ALICE, PODS)
    privileged = await fairness.enter(exempt, ADMIN, PODS)
    change = info("/api/v1/namespaces/web/pods", "POST")
    requesting = [asyncio.create_task(fairness.enter(schema, ALICE, item)) for item in (PODS, change, change)]
    await asyncio.sleep(0)
    full = _page_of(fairness)

    fairness.leave(privileged)
    fairness.leave(held)
    for request in requesting:
        fairness.leave(await request)
    over = _page_of(fairness)

    labels = 'flow_schema="global-default",priority_level="global-default"'
    for text, running, waiting in ((full, 1, 3), (over, 0, 0)):
        assert f"apiserver_flowcontrol_current_executing_requests{{{labels}}} {running}\n" in text
        assert f"apiserver_flowcontrol_current_executing_seats{{{labels}}} {running}\n" in text
        assert f"apiserver_flowcontrol_current_inqueue_requests{{{labels}}} {waiting}\n" in text
    assert 'current_executing_seats{flow_schema="exempt",priority_level="exempt"} 1\n' in full
    assert 'apiserver_current_inqueue_requests{request_kind="mutating"} 2\n' in full
    assert 'apiserver_current_inqueue_requests{request_kind="readOnly"} 1\n' in full
    assert f'request_wait_duration_seconds_count{{{labels},execute="true"}} 3\n' in over


async def test_requests_rejected_from_the_queue_are_counted() -> None:
    fairness = PriorityAndFairness(1, 0, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    await fairness.enter(schema, ALICE, PODS)

    with pytest.raises(Rejected):
        await fairness.enter(schema, ALICE, PODS)

    assert 'priority_level="global-default",execute="false"} 1\n' in _page_of(fairness)


def _page_of(fairness: PriorityAndFairness) -> str:
    page = Page(Choice())
    show_fairness(page, fairness)
    return page.text()[0].decode()


async def test_idle_level_lends_seats_to_a_busy_one_temporarily() -> None:
    fairness = PriorityAndFairness(100, 30, default_levels(), default_schemas())
    busy, schema = fairness.levels["global-default"], fairness.sort(ALICE, PODS)
    start = time.monotonic()
    held = [await fairness.enter(schema, ALICE, PODS) for _ in range(busy.seats)]
    waiting = [asyncio.create_task(fairness.enter(schema, ALICE, PODS)) for _ in range(40)]
    await asyncio.sleep(0)
    assert busy.waiting == 40

    fairness.settle(start + 10)
    held += await asyncio.gather(*waiting)

    assert busy.occupied == busy.seats + 40 <= busy.limit
    others = [level for level in fairness.levels.values() if level is not busy]
    assert all(level.least <= level.limit for level in others)
    assert any(level.limit < level.seats for level in others)

    for admission in held:
        fairness.leave(admission)
    low = fairness.levels["workload-low"]
    requests = [asyncio.create_task(fairness.enter(fairness.sort(ACCOUNT, PODS), ACCOUNT, PODS)) for _ in range(100)]
    await asyncio.sleep(0)
    fairness.settle(start + 20)
    await asyncio.sleep(0)
    assert low.occupied >= low.seats
    for task in requests:
        task.cancel()
    await asyncio.gather(*requests, return_exceptions=True)


async def test_wide_request_takes_several_seats() -> None:
    fairness = PriorityAndFairness(100, 30, default_levels(), default_schemas())
    schema, level = fairness.sort(ALICE, PODS), fairness.levels["global-default"]

    wide = await fairness.enter(schema, ALICE, PODS, level.seats - 1)
    await fairness.enter(schema, ALICE, PODS)
    waiting = asyncio.create_task(fairness.enter(schema, ALICE, PODS))
    await asyncio.sleep(0)

    assert (level.occupied, level.waiting) == (level.seats, 1)
    assert f'executing_seats{{flow_schema="global-default",priority_level="global-default"}} {level.seats}' in _page_of(
        fairness
    )
    fairness.leave(wide)
    await waiting
    assert level.occupied == 2


async def test_request_wider_than_the_limit_executes_alone() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema, level = fairness.sort(ALICE, PODS), fairness.levels["global-default"]
    held = await fairness.enter(schema, ALICE, PODS)
    wide = asyncio.create_task(fairness.enter(schema, ALICE, PODS, 5))
    await asyncio.sleep(0)
    assert level.waiting == 1

    fairness.leave(held)

    assert (await wide).width == level.occupied == 5


@pytest.mark.parametrize(("total", "width"), [(600, 8), (2000, 10), (10, 1)])
def test_width_of_a_request_is_bounded_by_the_seats_of_its_level(total: int, width: int) -> None:
    fairness = PriorityAndFairness(total, 30, default_levels(), default_schemas())

    assert fairness.levels["global-default"].max_width == width


async def test_new_settings_apply_to_requests_that_wait() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    await fairness.enter(schema, ALICE, PODS)
    waiting = [asyncio.create_task(fairness.enter(schema, ALICE, PODS)) for _ in range(3)]
    await asyncio.sleep(0)

    fairness.configure({**default_levels(), "global-default": LevelSettings(100_000)}, default_schemas())
    await asyncio.sleep(0)

    assert not any(task.done() for task in waiting), "one seat in total"
    more = PriorityAndFairness(4, 30, default_levels(), default_schemas())
    schema = more.sort(ALICE, PODS)
    await more.enter(schema, ALICE, PODS)
    waiting += [asyncio.create_task(more.enter(schema, ALICE, PODS)) for _ in range(3)]
    await asyncio.sleep(0)
    more.configure({**default_levels(), "global-default": LevelSettings(100_000)}, default_schemas())
    await asyncio.gather(*waiting[3:])
    for task in waiting[:3]:
        task.cancel()
    await asyncio.gather(*waiting[:3], return_exceptions=True)


async def test_removed_level_serves_its_requests_before_it_disappears() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    held = await fairness.enter(schema, ALICE, PODS)
    waiting = asyncio.create_task(fairness.enter(schema, ALICE, PODS))
    await asyncio.sleep(0)
    levels = {name: item for name, item in default_levels().items() if name != "global-default"}

    fairness.configure(levels, [item for item in default_schemas() if item.level != "global-default"])

    assert fairness.sort(ALICE, PODS).name == "catch-all"
    assert fairness.levels["global-default"].removed
    fairness.leave(held)
    fairness.leave(await waiting)
    fairness.settle(time.monotonic())
    assert "global-default" not in fairness.levels
    assert fairness.levels["catch-all"].seats == 1


async def test_level_may_borrow_at_most_its_limit() -> None:
    levels = {**default_levels(), "global-default": LevelSettings(20, 0, 100, queues=4, hand=1, queue_length=50)}
    fairness = PriorityAndFairness(100, 30, levels, default_schemas())
    busy, schema = fairness.levels["global-default"], fairness.sort(ALICE, PODS)
    start = time.monotonic()
    requests = [asyncio.create_task(fairness.enter(schema, ALICE, PODS)) for _ in range(busy.seats + 40)]
    await asyncio.sleep(0)

    fairness.settle(start + 10)
    await asyncio.sleep(0)

    assert busy.limit == 2 * busy.seats == busy.occupied
    for task in requests:
        task.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
