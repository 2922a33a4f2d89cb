"""Tests for unknown fields and feature gates: a warning at start, an error where security could suffer."""

from __future__ import annotations

import pytest

from tests.unit.config.conftest import REFERENCE


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("maxPodz: 7", "maxPodz: 7 is not a known field; did you mean maxPods?; ignored"),
        ("fieldOf2030: {a: 1}", "fieldOf2030: is not a known field; ignored"),
        ("logging: {options: {xml: {}}}", "logging.options.xml: is not a known field"),
        ("featureGates: {Foo: true}", "featureGates.Foo: true is not a feature gate of any known release; ignored"),
    ],
)
def test_unknown_field_is_a_warning_with_file_and_line(load_text, tmp_path, text, warning):
    loaded = load_text(text)

    assert [each for each in loaded.warnings if each.startswith(f"{tmp_path}/node.yaml:4: {warning}")]
    assert len(loaded.tolerated) == 1


def test_unknown_field_has_the_name_of_the_file_format(load_text):
    loaded = load_text("kubeReservedFoo: x\n", header=REFERENCE)

    assert [problem.path for problem in loaded.tolerated] == ["kubeReservedFoo"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("authentication: {anonymus: {enabled: false}}", "authentication.anonymus"),
        ("authorization: {webhook: {conditions: []}}", "authorization.webhook.conditions"),
        ("seccompdefault: true", "seccompdefault"),
        ("tlsMinVersoin: VersionTLS13", "tlsMinVersoin"),
        ("protectKernelDefault: true", "protectKernelDefault"),
        ("kubeReserved: {cpu: 1m}", "kubeReserved"),
    ],
)
def test_unknown_field_that_could_weaken_security_is_an_error(rejected, text, path):
    ((where, rule),) = rejected(text)

    assert where == path
    assert rule.startswith("is not a known field")


def test_unknown_fields_are_listed_with_other_problems(rejected):
    assert [path for path, _ in rejected("maxPodz: 7\nport: 0\n")] == ["maxPodz", "port"]


def test_file_with_another_suffix_is_skipped_with_a_warning(load_text, native, tmp_path):
    native("maxPods: 1\n", name="conf.d/a.yaml")
    native("maxPods: 2\n", name="conf.d/b.conf")

    loaded = load_text("", f"--config-dir={tmp_path}/conf.d")

    assert loaded.config.max_pods == 2
    assert f"{tmp_path}/conf.d/a.yaml is skipped: the name of a drop-in must end in .conf" in loaded.warnings


def test_unknown_field_of_a_drop_in_names_the_drop_in(load_text, native, tmp_path):
    native("maxPodz: 1\n", name="conf.d/a.conf")

    loaded = load_text("", f"--config-dir={tmp_path}/conf.d")

    assert [problem.source for problem in loaded.tolerated] == [f"{tmp_path}/conf.d/a.conf:4"]
