"""Replay of recordings against the bundled server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential import scenarios
from tests.differential.cases import SCENARIOS, Case, Outcome, Recording
from tests.differential.catalog import NEWEST_SERVER_OPTIONS, OBJECTS, SERVER_OPTIONS, Resource, resources
from tests.differential.compare import Accepted, Difference, accepted, compare, covering
from tests.differential.runner import Runner, Target, set_up

_COMMON = (
    "--service-cluster-ip-range=10.96.0.0/24",
    "--allow-privileged=true",
    "--enable-admission-plugins=NodeRestriction",
    "--disable-admission-plugins=ResourceQuota",  # its controller writes the status of quotas
    "--bind-pods-to-single-node=false",  # the recorded servers have no scheduler
    "--manage-volumes=false",  # nor a controller of volumes
    # nor one of workloads, nodes, endpoints and disruption budgets
    "--controllers=clusterrole-aggregation-controller,garbage-collector-controller,namespace-controller",
)
OPTIONS = (*SERVER_OPTIONS, *_COMMON)
NEWEST_OPTIONS = ("--compatibility-version=1.36", *NEWEST_SERVER_OPTIONS, *_COMMON)


@dataclass
class Result:
    """The comparison of one resource."""

    resource: str
    count: int = 0
    unexplained: list[Difference] = field(default_factory=list)
    accepted: list[Difference] = field(default_factory=list)
    rules: set[Accepted] = field(default_factory=set)
    """Rules that cover the accepted differences."""

    def add(self, difference: Difference | None, rules: Sequence[Accepted]) -> None:
        """Count a case and its *difference*."""
        self.count += 1
        if difference is not None:
            found = covering(rules, difference)
            self.rules |= found
            (self.accepted if found else self.unexplained).append(difference)


async def replay(target: Target, paths: Sequence[Path], objects: Sequence[Path] = OBJECTS) -> list[Result]:
    """Send every recorded case to *target* and return the differences by resource.

    :param objects: directories of the base objects of the recordings.
    """
    await set_up(target)
    found = {resource.name: resource for resource in resources(objects)}
    return [await _replay(target, found, Recording.read(path)) for path in paths]


async def _replay(target: Target, known: dict[str, Resource], recording: Recording) -> Result:
    resource = known[recording.resource]
    assert [obj for obj, _ in recording.bases] == list(resource.bases), f"record {resource.name} again: bases changed"
    run = Runner(target, resource)
    result = Result(resource.name)
    bases = await run.bases()
    pairs = [  # The warnings about the base objects are recorded with the cases that create them.
        (Case("create", number), Outcome(201, obj=stored, warnings=ours.warnings))
        for number, ((_, stored), ours) in enumerate(zip(recording.bases, bases, strict=True))
    ]
    pairs += [(case, response.outcome) for case, response in recording.cases]
    outcomes = [*bases, *await run.run([case for case, _ in recording.cases])]
    rules = accepted()
    for (case, recorded), ours in zip(pairs, outcomes, strict=True):
        result.add(compare(resource.name, case, recorded, ours), rules)
    return result


async def replay_scenarios(target: Target, recording: str = SCENARIOS) -> Result:
    """Run every scenario of *recording* on *target* and return the differences.

    Steps that kube-apiserver fails, without a response or with code 500, are defects and not compared.
    """
    recorded, rules, result = scenarios.read(recording), accepted(), Result(recording)
    for scenario, outcomes in zip(recorded, await scenarios.run(target, recorded), strict=True):
        name = f"{recording}/{scenario.name}"
        for step, expected, ours in zip(scenario.steps, scenario.outcomes, outcomes, strict=True):
            if expected.code not in (0, 500):
                result.add(compare(name, step, expected, ours), rules)
    return result
