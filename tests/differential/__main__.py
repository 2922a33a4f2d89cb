"""Record the responses of kube-apiserver, or compare the bundled server with the recordings.

``python -m tests.differential record [--server PROGRAM | --facts FILE] [--cases N] [RESOURCE…]`` needs the executable
of kube-apiserver 1.29; ``python -m tests.differential compare [RESOURCE…]`` needs nothing. With ``--newest``, the
recordings are those of release 1.36. ``record --unit`` sends the cases of the recordings for unit tests again, which
no generator yields.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.differential import cases, catalog, generate, replay, runner, scenarios, schema, sequences
from tests.differential.cases import (
    JOBS,
    NEWEST_SCENARIOS,
    NODES,
    SCENARIOS,
    TABLES,
    Case,
    Outcome,
    Recording,
    Response,
)
from tests.differential.catalog import Resource
from tests.differential.edits import difference
from tests.differential.runner import Runner, Target
from tests.differential.scenarios import Scenario
from tests.differential.sequences import jobs, nodes, tables

_SEED = 1
_SCENARIOS: dict[str, Callable[[], Iterable[Scenario]]] = {
    SCENARIOS: sequences.generate,
    TABLES: tables.generate,
    NODES: nodes.generate,
    JOBS: jobs.generate,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="record the responses of kube-apiserver")
    record.add_argument("--server", type=Path, help="program of kube-apiserver 1.29")
    record.add_argument("--facts", type=Path, help="file with url, caFile and token of a running one")
    record.add_argument("--cases", type=int, default=50_000, help="number of cases of all resources (50000)")
    record.add_argument("--unit", action="store_true", help="record the cases for unit tests again")
    check = commands.add_parser("compare", help="compare the bundled server with the recordings")
    check.add_argument("--facts", type=Path, help="file with url, caFile and token of a running one")
    check.add_argument("--show", type=int, default=5, help="examples per kind of difference (5)")
    check.add_argument("--match", default="", help="show only differences that contain this text")
    for command in (record, check):
        command.add_argument("--newest", action="store_true", help="use the recordings of release 1.36")
        command.add_argument(
            "resources", nargs="*", help=f"names such as pods, csinodes.storage.k8s.io, {SCENARIOS}, {TABLES}"
        )
    arguments = parser.parse_args()
    if arguments.command == "record":
        return _record(arguments)
    return _compare(arguments)


def _record(arguments: argparse.Namespace) -> int:
    known = catalog.resources(catalog.NEWEST_OBJECTS if arguments.newest else catalog.OBJECTS)
    chosen = [item for item in known if _is_chosen(arguments, item.name)]
    total = sum(item.share for item in known)
    with _upstream(arguments) as target:
        document = _get(target, "/openapi/v2")
        release = _get(target, "/version")["gitVersion"]
        asyncio.run(runner.set_up(target))
        if arguments.unit:
            return _record_for_unit_tests(arguments, target)
        for resource in chosen:
            count = round(arguments.cases * resource.share / total)
            recording = asyncio.run(_record_resource(target, resource, document, count))
            recording.release = release if release.startswith("v1.") else "v1.29"
            path = recording.write(cases.NEWEST_RECORDINGS if arguments.newest else cases.RECORDINGS)
            codes = Counter(response.outcome.code for _, response in recording.cases)
            print(f"{resource.name}: {len(recording.cases)} cases {dict(codes)} {path.stat().st_size >> 10} KiB")
        for name, generate_scenarios in _SCENARIOS.items():
            if _is_chosen(arguments, name):
                _record_scenarios(target, release, name, list(generate_scenarios()))
    return 0


def _is_chosen(arguments: argparse.Namespace, name: str) -> bool:
    """Return whether the recording *name* is requested."""
    if name in _SCENARIOS and arguments.newest is not (name in NEWEST_SCENARIOS):
        return False
    return not arguments.resources or name in arguments.resources


def _record_scenarios(target: Target, release: str, name: str, found: list[Scenario]) -> None:
    for scenario, outcomes in zip(found, asyncio.run(scenarios.run(target, found)), strict=True):
        scenario.outcomes = outcomes
    path = scenarios.write(found, release, name)
    codes = Counter(outcome.code for scenario in found for outcome in scenario.outcomes)
    steps = sum(len(scenario.steps) for scenario in found)
    print(f"{name}: {len(found)} of {steps} steps {dict(codes)} {path.stat().st_size >> 10} KiB")


async def _record_resource(target: Target, resource: Resource, document: dict[str, Any], count: int) -> Recording:
    run = Runner(target, resource)
    bases = await run.bases()
    for number, outcome in enumerate(bases):
        if outcome.code >= 300:
            raise AssertionError(f"base {number} of {resource.name}: {outcome}")
    shape = schema.kind_shape(document, resource.api_version, resource.kind)
    generated = generate.generate(resource, [outcome.obj for outcome in bases], shape, count, _SEED)
    outcomes = [replace(outcome, messages=()) for outcome in await run.run(generated)]
    return _recording(resource, bases, generated, outcomes)


def _record_for_unit_tests(arguments: argparse.Namespace, target: Target) -> int:
    release = "1.36" if arguments.newest else "1.29"
    for path in cases.recordings(arguments.resources, cases.UNIT_RECORDINGS / release):
        recording = asyncio.run(_record_again(target, Recording.read(path)))
        recording.write(path.parent)
        print(f"{recording.resource}: {len(recording.cases)} cases")
    return 0


async def _record_again(target: Target, known: Recording) -> Recording:
    """Return the recording of the cases of *known*, with the messages that were recorded."""
    run = Runner(target, known.catalogued)
    bases = await run.bases()
    found = await run.run([case for case, _ in known.cases])
    outcomes = [
        outcome if response.outcome.messages else replace(outcome, messages=())
        for outcome, (_, response) in zip(found, known.cases, strict=True)
    ]
    recording = _recording(run.resource, bases, [case for case, _ in known.cases], outcomes)
    recording.release = known.release
    return recording


def _recording(
    resource: Resource, bases: Sequence[Outcome], sent: Sequence[Case], outcomes: Sequence[Outcome]
) -> Recording:
    recording = Recording(resource.name, "")
    recording.bases = [(base, outcome.obj) for base, outcome in zip(resource.bases, bases, strict=True)]
    for case, outcome in zip(sent, outcomes, strict=True):
        if outcome.code in (0, *range(500, 600)):  # defects of kube-apiserver, not behavior to match
            continue
        change = None
        if outcome.code < 300:
            change = difference(bases[case.base].obj, outcome.obj)
        recording.cases.append((case, Response(outcome, change)))
    return recording


def _compare(arguments: argparse.Namespace) -> int:
    directory = cases.NEWEST_RECORDINGS if arguments.newest else cases.RECORDINGS
    objects = catalog.NEWEST_OBJECTS if arguments.newest else catalog.OBJECTS
    paths = cases.recordings(arguments.resources, directory)
    started = time.monotonic()
    with _ours(arguments) as target:
        results = asyncio.run(replay.replay(target, paths, objects))
        for name in _SCENARIOS:
            if _is_chosen(arguments, name):
                results.append(asyncio.run(replay.replay_scenarios(target, name)))
    total = failed = 0
    kinds: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    for result in results:
        total += result.count
        failed += len(result.unexplained)
        print(f"{result.resource}: {result.count} cases, {len(result.unexplained)} differences")
        for item in result.unexplained:
            for text in item.found:
                kind = f"{result.resource} {text}"
                kinds[kind] += 1
                if arguments.match in kind and shown[kind] < arguments.show:
                    shown[kind] += 1
                    print(f"  {text}")
                    print(f"    {json.dumps(item.case.to_json(), ensure_ascii=False)[:600]}")
                    if item.recorded.code != item.ours.code or item.recorded.causes != item.ours.causes:
                        print(f"    upstream {item.recorded.code} {item.recorded.causes}")
                        print(f"    ours     {item.ours.code} {item.ours.messages or item.ours.causes}")
    for kind, number in kinds.most_common(25):
        print(f"{number:6} {kind}")
    print(f"{total} cases, {failed} differences, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


@contextmanager
def _upstream(arguments: argparse.Namespace) -> Iterator[Target]:
    if arguments.facts is not None:
        yield _target(json.loads(arguments.facts.read_text()))
        return
    if arguments.server is None:
        sys.exit("record needs --server or --facts")
    os.environ["PATH"] += ":/usr/sbin"
    from tests.integration.reference import ReferenceApiServer

    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        server = ReferenceApiServer(Path(directory), arguments.server)
        try:
            server.extra_options = catalog.NEWEST_SERVER_OPTIONS if arguments.newest else catalog.SERVER_OPTIONS
            server.start()
            yield _target(server.facts)
        finally:
            server.stop()


@contextmanager
def _ours(arguments: argparse.Namespace) -> Iterator[Target]:
    if arguments.facts is not None:
        yield _target(json.loads(arguments.facts.read_text()))
        return
    from nodeagent.testing.apiserver import started_apiserver

    options = replay.NEWEST_OPTIONS if arguments.newest else replay.OPTIONS
    with started_apiserver(*options) as server:
        yield Target(server.url, str(server.ca_file), server.token)


def _target(facts: dict[str, Any]) -> Target:
    return Target(facts["url"], facts["caFile"], facts["token"])


def _get(target: Target, path: str) -> Any:
    context = ssl.create_default_context(cafile=target.ca_file)
    request = urllib.request.Request(target.url + path, headers={"Authorization": f"Bearer {target.token}"})
    with urllib.request.urlopen(request, context=context, timeout=60) as response:
        return json.load(response)


if __name__ == "__main__":
    sys.exit(main())
