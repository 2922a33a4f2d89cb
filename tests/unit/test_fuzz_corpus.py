"""Tests for the parsers of untrusted input with the stored inputs of the fuzzer, and for the fuzzer's rules."""

from __future__ import annotations

import pytest

from tests.fuzz import targets
from tests.fuzz.mutations import mutated
from tests.fuzz.selection import MAX_FILE_BYTES, MAX_FILES, store
from tests.fuzz.target import CORPUS, TARGETS, Target, check, strict

targets.load()


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_stored_inputs_violate_no_invariant(name):
    with strict():
        found = {path.name: check(TARGETS[name], path.read_bytes()) for path in TARGETS[name].inputs()}

    assert found
    if findings := {file: finding for file, finding in found.items() if finding is not None}:
        pytest.fail("\n".join(f"{file}: {finding.text}" for file, finding in findings.items()), pytrace=False)


def test_stored_inputs_are_few_and_small():
    directories = {path.name: list(path.iterdir()) for path in CORPUS.iterdir()}

    assert set(directories) == set(TARGETS)
    assert max(map(len, directories.values())) <= MAX_FILES
    assert max(path.stat().st_size for paths in directories.values() for path in paths) <= MAX_FILE_BYTES


def _decode(data: bytes) -> None:
    data.decode("ascii")


def _target(*errors: type[Exception]) -> Target:
    return Target("decode", _decode, errors, (), 100)


def test_documented_error_is_not_a_finding():
    assert check(_target(UnicodeDecodeError), b"\xff") is None


def test_undocumented_error_is_a_finding_with_its_cause():
    finding = check(_target(KeyError), b"\xff")

    assert finding is not None
    assert finding.cause.startswith("UnicodeDecodeError tests/unit/test_fuzz_corpus.py:")
    assert "can't decode byte 0xff" in finding.text


def test_mutations_are_the_same_every_time():
    first, second = (list(mutated(TARGETS["yaml"], 200)) for _ in range(2))

    assert first == second
    assert len(set(first)) > 100
    assert max(map(len, first)) <= TARGETS["yaml"].max_bytes


def test_stored_inputs_are_those_that_execute_further_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.fuzz.target.CORPUS", tmp_path)
    target, working = TARGETS["duration"], tmp_path / "working"
    for directory, inputs in ((target.corpus, (b"1s",)), (working, (b"2s", b"-1h2m3.5s", b"x"))):
        directory.mkdir()
        for number, data in enumerate(inputs):
            (directory / str(number)).write_bytes(data)

    store(target, working)

    assert {path.read_bytes() for path in target.inputs()} == {b"1s", b"-1h2m3.5s", b"x"}
