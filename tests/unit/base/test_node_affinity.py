"""Tests for node selectors and required node affinity."""

from nodeagent.base.node_affinity import node_matches

LABELS = {"zone": "a", "cores": "8", "empty": ""}


def test_node_selector_requires_every_label():
    for selector, expected in [
        ({}, True),
        ({"zone": "a"}, True),
        ({"zone": "a", "cores": "8"}, True),
        ({"zone": "a", "cores": "4"}, False),
        ({"missing": ""}, False),
    ]:
        assert node_matches(selector, None, LABELS, "node-1") is expected, selector
    assert not node_matches({"zone": "b"}, [{"matchExpressions": [expression("zone", "Exists")]}], LABELS, "node-1")


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def test_each_operator_compares_the_value_of_a_label():
    for requirement, expected in [
        (("zone", "In", "a", "b"), True),
        (("zone", "In", "b"), False),
        (("missing", "In", "a"), False),
        (("zone", "NotIn", "b"), True),
        (("zone", "NotIn", "a", "b"), False),
        (("missing", "NotIn", "a"), True),
        (("zone", "Exists"), True),
        (("empty", "Exists"), True),
        (("missing", "Exists"), False),
        (("zone", "DoesNotExist"), False),
        (("missing", "DoesNotExist"), True),
        (("cores", "Gt", "7"), True),
        (("cores", "Gt", "8"), False),
        (("cores", "Lt", "9"), True),
        (("cores", "Lt", "8"), False),
        (("zone", "Gt", "1"), False),
        (("missing", "Lt", "1"), False),
    ]:
        assert node_matches({}, [{"matchExpressions": [expression(*requirement)]}], LABELS, "n") is expected, (
            requirement
        )


def test_malformed_requirement_matches_no_node():
    for requirement in [
        ("zone", "In"),
        ("missing", "NotIn"),
        ("zone", "Exists", "a"),
        ("missing", "DoesNotExist", "a"),
        ("cores", "Gt"),
        ("cores", "Gt", "1", "2"),
        ("cores", "Lt", "many"),
        ("cores", "Lt", 9),
        ("zone", "Equals", "a"),
    ]:
        others = [expression("zone", "Exists"), expression(*requirement)]
        assert not node_matches({}, [{"matchExpressions": others}], LABELS, "n"), requirement
        # Also if an earlier requirement does not match.
        others = [expression("missing", "Exists"), expression(*requirement)]
        assert not node_matches({}, [{"matchExpressions": others}], LABELS, "n"), requirement


def test_field_is_the_name_of_the_node():
    for requirement, expected in [
        (("metadata.name", "In", "node-1"), True),
        (("metadata.name", "In", "node-2"), False),
        (("metadata.name", "NotIn", "node-2"), True),
        (("metadata.name", "NotIn", "node-1"), False),
        (("metadata.name", "In", "node-1", "node-2"), False),
        (("metadata.name", "In"), False),
        (("metadata.name", "Exists", "node-1"), False),
        (("metadata.uid", "In", ""), True),
        (("metadata.uid", "In", "node-1"), False),
    ]:
        assert node_matches({}, [{"matchFields": [expression(*requirement)]}], LABELS, "node-1") is expected, (
            requirement
        )


def test_any_term_with_all_its_requirements_suffices():
    zone_a, zone_b = expression("zone", "In", "a"), expression("zone", "In", "b")
    this, other = expression("metadata.name", "In", "node-1"), expression("metadata.name", "In", "node-2")
    for terms, expected in [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": None, "matchFields": None}], False),
        ([{"matchExpressions": [zone_a], "matchFields": [this]}], True),
        ([{"matchExpressions": [zone_a], "matchFields": [other]}], False),
        ([{"matchExpressions": [zone_b], "matchFields": [this]}], False),
        ([{"matchExpressions": [zone_a, zone_b]}], False),
        ([{"matchExpressions": [zone_b]}, {"matchExpressions": [zone_a]}], True),
        ([{"matchExpressions": [expression("zone", "In")]}, {"matchExpressions": [zone_a]}], True),
    ]:
        assert node_matches({}, terms, LABELS, "node-1") is expected, terms
