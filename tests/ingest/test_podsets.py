"""Annotation pod-group-sets: what is taken, and where and how mistakes are told."""

import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.translate.podsets import MAX_SETS, Declared, parse_sets
from podgroup.model.limits import ANNOTATIONS_BYTES
from podgroup.model.objects import NodeTerm, Requirement, Toleration
from podgroup.model.roles import role_hash
from tests.support.examples import examples

# KEP-976, story 3, to the letter: a flow mapping with a block in it, which no YAML parser takes.
KEP = """\
[
  {
    name: driver,
    count: 1,
  },
  {
    name: workers,
    count: 10,
    template:
      spec:
        containers:
          - name: worker
            requests:
              cpu: 1m
  }
]"""
CONTAINER = {"name": "worker", "resources": {"requests": {"cpu": "1m"}}}
PLAIN = [
    {"name": "driver", "count": 1},
    {"name": "workers", "count": 10, "template": {"spec": {"containers": [CONTAINER]}}},
]
BLOCK = """\
- name: driver
- name: workers
  count: 10
  template:
    metadata: {}
    spec:
      containers:
        - name: worker
          resources:
            requests: {cpu: "0.001"}
"""
FLOW = (
    "[{name: driver, count: 1}, {name: workers, count: 10, template: "
    "{spec: {containers: [{name: worker, requests: {cpu: 1m}}]}}},]"
)
ALIGNED = """\
# sets of the job
[{ name: driver },
 # the rest
 { name: workers,   # made by the driver
   count: 10,
   template:
     spec:
       containers: [ { name: worker, args: ["a,", '}'], requests: { cpu: 1m } } ] }]
"""


@pytest.mark.parametrize(
    "text",
    [
        KEP,
        textwrap.indent(KEP, "      "),
        KEP.replace("\n", "\r\n"),
        json.dumps(PLAIN),
        json.dumps(PLAIN, indent="\t"),
        BLOCK,
        FLOW,
        ALIGNED,
    ],
    ids=["kep", "kep-indented", "kep-crlf", "json", "json-tabs", "block", "flow", "aligned"],
)
def test_every_way_to_write_it_declares_the_same(text: str) -> None:
    found = parse_sets(text)
    assert found.errors == ()
    driver, workers = found.sets
    assert (driver.name, driver.count, driver.template) == ("driver", 1, "")
    assert (workers.name, workers.count, workers.requests) == ("workers", 10, {"cpu": 1})
    assert json.loads(workers.template) == {"containers": [CONTAINER]}
    assert workers.role == role_hash({"spec": {"containers": [CONTAINER]}})
    assert found.key == parse_sets(json.dumps(PLAIN)).key


def test_other_counts_names_or_templates_have_another_key() -> None:
    keys = {
        parse_sets(KEP.replace(a, b)).key
        for a, b in (("", ""), ("10", "11"), ("driver", "boss"), ("1m", "2m"))
    }
    assert len(keys) == 4


def test_of_a_template_only_what_matters_for_admission_and_scheduling_is_kept() -> None:
    spec = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
        "overhead": {"cpu": "100m"},
        "volumes": [{"name": "secret", "secret": {"secretName": "s"}}],
        "initContainers": [{"name": "init", "limits": {"memory": "1Gi"}, "env": [{"name": "A"}]}],
        "containers": [
            {"name": "w", "image": "i", "command": ["x"], "requests": {"cpu": 2}, "env": []},
        ],
    }
    (one,) = parse_sets(json.dumps([{"name": "w", "template": {"spec": spec}}])).sets
    assert one.requests == {"cpu": 2100, "memory": 2**30}
    assert one.node_selector == {"disk": "ssd"}
    assert one.tolerations == (Toleration(key="gpu", operator="Exists"),)
    term = Requirement(key="z", operator="In", values=("a",))
    assert one.node_terms == (NodeTerm(expressions=(term,)),)
    for word in ("secret", "env", "command"):
        assert word not in one.template


@pytest.mark.parametrize(
    ("template", "empty"),
    [("", True), ("null", True), ("{}", True), ("{spec: {}}", True), ("{metadata: {}}", True)],
)
def test_an_empty_template_is_none(template: str, empty: bool) -> None:
    (one,) = parse_sets(f"[{{name: d, template: {template}}}]").sets
    assert (one.template == "") is empty


def sets(more: str) -> str:
    return f"- name: driver\n- name: workers\n{textwrap.indent(textwrap.dedent(more), '  ')}"


def spec(more: str) -> str:
    return sets(f"template:\n  spec:\n{textwrap.indent(textwrap.dedent(more), '    ')}")


WRONG = [
    ("", 0, 0, "", "must be a list of sets"),
    ("{}", 1, 1, "", "this is a mapping"),
    ("[]", 1, 1, "", "this list is empty"),
    ("- driver", 1, 3, "[0]", "must be a mapping, not 'driver'"),
    ("- {name: Driver}", 1, 4, "[0].name", "DNS-1123 label"),
    ("- {count: 1}", 1, 3, "[0].name", "nothing is given"),
    (sets("count: 0"), 3, 3, "[1].count", "from 1 to 100000, not 0"),
    (sets('count: "3"'), 3, 3, "[1].count", "not '3'"),
    (sets("count: true"), 3, 3, "[1].count", "not True"),
    (sets("count: 1.5"), 3, 3, "[1].count", "not 1.5"),
    (sets("count: 100000"), 1, 1, "", "has 100001 pods in all"),
    (sets("cuont: 3"), 3, 3, "[1].cuont", "is not known"),
    (sets("minCount: 3"), 3, 3, "[1].minCount", "is not known"),
    ("- name: a\n- name: b\n- name: a", 3, 3, "[2].name", "is the name of [0] already"),
    ("\n".join(f"- name: s{i}" for i in range(MAX_SETS + 1)), 1, 1, "", "has 19 sets"),
    (sets("template: 3"), 3, 3, "[1].template", "must be a mapping, not 3"),
    (sets("template: {labels: {}}"), 3, 14, "[1].template.labels", "is not known"),
    (spec("containers: []"), 5, 7, "[1].template.spec.containers", "this list is empty"),
    (spec("nodeSelector: {a: b}"), 4, 5, "[1].template.spec.containers", "nothing is given"),
    (spec("containers: [{image: i}]"), 5, 20, "[1].template.spec.containers[0].name", "DNS"),
    (
        spec("containers:\n- name: c\n  requests:\n    cpu: lots"),
        8,
        11,
        "[1].template.spec.containers[0].requests.cpu",
        "lots",
    ),
    (
        spec("containers: [{name: c, requests: {cpu: 1}, resources: {requests: {cpu: 1}}}]"),
        5,
        30,
        "[1].template.spec.containers[0].requests",
        "is there twice",
    ),
    (
        spec("tolerations: {}\ncontainers: [{name: c}]"),
        5,
        7,
        "[1].template.spec.tolerations",
        "array",
    ),
    (
        spec("nodeSelector: {a: 1}\ncontainers: [{name: c}]"),
        5,
        7,
        "[1].template.spec.nodeSelector",
        "str",
    ),
    (KEP.replace("count: 10,", "count: ten,"), 8, 5, "[1].count", "not 'ten'"),
    (KEP.replace("cpu: 1m", "cpu: 1x"), 14, 15, "[1].template.spec.containers[0].requests.cpu", ""),
    (KEP.replace("      spec:", "   spec:"), 10, 8, "", ""),
    ("- name: a\n count: 1", 2, 2, "", ""),
    ("- {name: a, name: b}", 1, 13, "[0].name", "is there twice"),
    ('[{"name": "a", "name": "b"}]', 1, 16, "[0].name", "is there twice"),
    ("- &a {name: a}\n- *a", 1, 3, "", "anchors"),
    ("- name: !!python/object/apply:os.getcwd []", 1, 9, "", "tag"),
    ("- name: a\n---\n- name: b", 2, 1, "", "one document"),
    ("[" * 5000, 1, 41, "", "nested more than 40 levels"),
    ('[{"name": "a", "x": ' + "[" * 500 + "]" * 500 + "}]", 1, 59, "", "nested more than"),
    ("- " + "[" + "1," * 60_000 + "]", 1, 100000, "", "more than 50000 values"),
    ("- name: \x07", 1, 9, "", "not allowed"),
]


@pytest.mark.parametrize(("text", "line", "column", "field", "words"), WRONG)
def test_a_mistake_is_told_where_it_is(
    text: str, line: int, column: int, field: str, words: str
) -> None:
    found = parse_sets(text)
    error = found.errors[0]
    assert (error.line, error.column, error.field) == (line, column, field), found.problem
    assert words in error.message
    assert found.sets == ()
    assert found.key


def test_a_text_beyond_the_bound_is_refused_unread() -> None:
    found = parse_sets("é" * (ANNOTATIONS_BYTES // 2 + 1))
    assert "bytes long" in found.problem


def test_all_mistakes_are_told_up_to_a_bound() -> None:
    found = parse_sets("\n".join(f"- {{name: A{i}, count: 0}}" for i in range(15)))
    assert len(found.errors) == 10
    assert found.problem.endswith("(and 9 more)")


@examples(300, brief=100)
@given(
    st.text(alphabet="[]{},:-\n\t '\"#&*!ab1", max_size=60)
    | st.tuples(st.integers(0, len(KEP)), st.text("[]{},:\n ", max_size=3)).map(
        lambda cut: KEP[: cut[0]] + cut[1] + KEP[cut[0] + 1 :]
    )
)
def test_any_text_gives_sets_or_errors(text: str) -> None:
    found = parse_sets(text)
    assert isinstance(found, Declared)
    assert bool(found.sets) != bool(found.errors)
