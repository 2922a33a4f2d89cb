"""The pause between runs of a container."""

from __future__ import annotations

from nodeagent.contracts.runtime import ANNOTATION_HASH, ContainerState, RuntimeContainerStatus
from nodeagent_plugins.pod_sync.backoff import next_pause, pause_after, remaining
from nodeagent_plugins.pod_sync.records import ANNOTATION_BACKOFF, ANNOTATION_SANDBOX

NANO = 1_000_000_000
HASH = "abcd"


def ended(
    *, noted: int | None = None, ran: int = 5, at: int = 1000, attempt: int = 1, hash: str = HASH, ours: bool = True
):
    annotations = {ANNOTATION_HASH: hash}
    if ours:
        annotations[ANNOTATION_SANDBOX] = "s1"
    if noted is not None:
        annotations[ANNOTATION_BACKOFF] = str(noted)
    return RuntimeContainerStatus(
        id="c",
        name="main",
        attempt=attempt,
        state=ContainerState.EXITED,
        created_at=(at - ran) * NANO,
        started_at=(at - ran) * NANO,
        finished_at=at * NANO,
        exit_code=1,
        image="i",
        image_ref="i",
        annotations=annotations,
    )


def test_the_pause_counts_from_the_end_of_the_run():
    last = ended(noted=40, at=1000)

    assert remaining(last, HASH, 1010 * NANO) == 30
    assert remaining(last, HASH, 1040 * NANO) == 0


def test_the_first_run_is_followed_at_once_then_by_ten_seconds():
    first = ended(attempt=0)

    assert remaining(first, HASH, 1000 * NANO) == 0
    assert next_pause(None, HASH, 0) == 0
    assert next_pause(first, HASH, 1000 * NANO) == 10


def test_pauses_double_up_to_the_maximum():
    assert next_pause(ended(noted=160), HASH, 0) == 300
    assert next_pause(ended(noted=300), HASH, 0) == 300


def test_a_long_run_makes_up_for_earlier_crashes():
    last = ended(noted=300, ran=601, at=2000)

    assert remaining(last, HASH, 2000 * NANO) == 0
    assert next_pause(last, HASH, 2000 * NANO) == 10


def test_a_changed_definition_starts_at_once():
    assert pause_after(ended(noted=300, hash="old"), HASH, 1000 * NANO) == 0


def test_restarts_under_another_program_count():
    assert pause_after(ended(attempt=3, ours=False, hash="theirs"), HASH, 1000 * NANO) == 40


def test_a_clock_set_back_does_not_prolong_the_pause():
    assert remaining(ended(noted=20, at=1000), HASH, 10 * NANO) == 20


def test_a_nonsensical_note_is_limited():
    assert pause_after(ended(noted=999999), HASH, 1000 * NANO) == 300
