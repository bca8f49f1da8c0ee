"""Quantities: vectors of apimachinery's canonical form, and what must hold for any text."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from podgroup.model import quantities as q
from podgroup.model.quantity_text import Form, render

CANONICAL = {
    "0": "0", "00": "0", "0.0": "0", "0m": "0", "-0": "0", "0Gi": "0",
    "1": "1", "1000m": "1", "1500m": "1500m", "1.5": "1500m", "0.1": "100m", ".5": "500m",
    "100m": "100m", "10": "10", "1000": "1k", "1024": "1024", "2000000": "2M",
    "1Gi": "1Gi", "1024Mi": "1Gi", "0.5Gi": "512Mi", "1.5Gi": "1536Mi", "1000Ki": "1000Ki",
    "512Ki": "512Ki", "0.5Ki": "512", "8Ei": "9223372036854775807", "1.2Ki": "1228800m",
    "123Mi": "123Mi", "129M": "129M", "129e6": "129e6", "12e5": "1200e3", "1e2": "100",
    "1E": "1E", "1000E": "1000E", "0.0000000001": "1n", "1n": "1n", "1000u": "1m",
    "-1500m": "-1500m", "-1Gi": "-1Gi",
    # Held to be canonical already by the server and given back untouched.
    "+5": "+5", "1.500": "1.500", "5E3": "5E3",
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CANONICAL.items())
def test_canonical_vectors(text: str, expected: str) -> None:
    assert q.canonical(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)),
        ("1Ki", Fraction(1024)),
        ("1k", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("2E", Fraction(2 * 10**18)),
        ("2E1", Fraction(20)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("9Ei", Fraction(2**63 - 1)),
        ("1.", Fraction(1)),
        ("1e97", Fraction(10**96)),
        ("1e999999999999", Fraction(10**96)),
        ("-1e300", Fraction(-(10**96))),
        ("9" * 5000, Fraction(10**96)),
        ("0" * 5000 + "7", Fraction(7)),
        ("1e-97", Fraction(1, 10**9)),
        ("0." + "0" * 5000 + "1", Fraction(1, 10**9)),
        ("0e999999999", Fraction(0)),
    ],
)
def test_parse_vectors(text: str, value: Fraction) -> None:
    assert q.parse(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", "abc", "1gb", "1KI", "1ki", ".", "-", "+", "--1", "1e", "1e1.5", "1.2.3", "m",
     "Gi", "１", "1_000", "0x10", "NaN", "1\n"],
)  # fmt: skip
def test_refused_texts(text: str) -> None:
    with pytest.raises(q.QuantityError) as caught:
        q.parse(text)
    assert repr(text[:40]) in str(caught.value)


numbers = st.from_regex(r"[+-]?([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)
suffixes = st.sampled_from(
    ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+6", "e0", "e-9"]
)
texts = st.builds("".join, st.tuples(numbers, suffixes))


@given(texts)
def test_canonical_keeps_the_value_and_is_idempotent(text: str) -> None:
    printed = q.canonical(text)
    assert q.parse(printed) == q.parse(text)
    assert q.canonical(printed) == printed


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(list(Form)))
def test_render_parses_back(nanos: int, form: Form) -> None:
    value = Fraction(nanos, 10**9)
    assert q.parse(render(value, form)) == value


@given(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"]),
    st.integers(0, 2**63 - 1),
)
def test_amounts_round_trip(resource: str, amount: int) -> None:
    text = q.format_amount(resource, amount)
    assert q.amount(resource, text) == amount
    assert q.canonical(text) == text


@given(texts)
def test_amounts_round_up_and_are_capped(text: str) -> None:
    value = q.parse(text)
    assume(value >= 0)
    milli, whole = q.amount("cpu", text), q.amount("memory", text)
    assert milli == min(2**63 - 1, -(-(value * 1000) // 1))
    assert whole == min(2**63 - 1, -(-value // 1))


def test_amount_vectors_and_errors() -> None:
    assert q.amount("cpu", "1") == 1000
    assert q.amount("cpu", "0.0001") == 1
    assert q.amount("memory", "1Gi") == 2**30
    assert q.amount("memory", "1.5") == 2
    assert q.format_amount("cpu", 1500) == "1500m"
    assert q.format_amount("memory", 2**30) == "1Gi"
    assert q.format_amount("nvidia.com/gpu", 8) == "8"
    with pytest.raises(q.QuantityError, match=r"resource cpu: 'x'"):
        q.amount("cpu", "x")


def box(requests: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if requests is not None:
        resources["requests"] = requests
    if "limits" in more:
        resources["limits"] = more.pop("limits")
    return {"name": "c", "resources": resources, **more}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"containers": [{"name": "c"}]}, {}, id="no-resources"),
        pytest.param(
            {"containers": [box({"cpu": "500m"}), box({"cpu": "1", "memory": "1Gi"})]},
            {"cpu": 1500, "memory": 2**30},
            id="sum",
        ),
        pytest.param(
            {"containers": [box({"cpu": "0.0004"}), box({"cpu": "0.0004"})]},
            {"cpu": 1},
            id="rounded-once",
        ),
        pytest.param({"containers": [box({"cpu": 1})]}, {"cpu": 1000}, id="number-in-yaml"),
        pytest.param(
            {"containers": [box({"cpu": "1"})], "initContainers": [box({"cpu": "3"})]},
            {"cpu": 3000},
            id="init-peak",
        ),
        pytest.param(
            {
                "containers": [box({"cpu": "1"})],
                "initContainers": [box({"cpu": "2"}), box({"memory": "1Ki"})],
            },
            {"cpu": 2000, "memory": 1024},
            id="init-peak-per-resource",
        ),
        pytest.param(
            {"containers": [box({"cpu": "1"})], "initContainers": [box({"cpu": "2"}, **SIDECAR)]},
            {"cpu": 3000},
            id="sidecar-adds",
        ),
        pytest.param(
            {
                "containers": [box({"cpu": "1"})],
                "initContainers": [box({"cpu": "2"}, **SIDECAR), box({"cpu": "5"})],
            },
            {"cpu": 7000},
            id="init-after-sidecar",
        ),
        pytest.param(
            {
                "containers": [box({"cpu": "1"})],
                "initContainers": [box({"cpu": "5"}), box({"cpu": "2"}, **SIDECAR)],
            },
            {"cpu": 5000},
            id="init-before-sidecar",
        ),
        pytest.param(
            {"containers": [box({"cpu": "1"})], "overhead": {"cpu": "250m", "memory": "1Mi"}},
            {"cpu": 1250, "memory": 2**20},
            id="overhead",
        ),
        pytest.param(
            {"containers": [box(limits={"cpu": "2", "nvidia.com/gpu": "1"})]},
            {"cpu": 2000, "nvidia.com/gpu": 1},
            id="limit-stands-in",
        ),
        pytest.param(
            {"containers": [box({"cpu": "1"}, limits={"cpu": "2"})]},
            {"cpu": 1000},
            id="request-wins-over-limit",
        ),
        pytest.param(
            {
                "containers": [box({"cpu": "1", "nvidia.com/gpu": "2"})],
                "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "9"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 5000, "nvidia.com/gpu": 2},
            id="pod-level",
        ),
        pytest.param(
            {
                "containers": [box({"cpu": "1"})],
                "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
            },
            {"cpu": 1000, "memory": 2**30},
            id="pod-level-limits",
        ),
    ],
)
def test_effective_requests(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert q.effective_requests(spec) == expected


def test_effective_requests_names_the_resource_in_errors() -> None:
    with pytest.raises(q.QuantityError, match="resource memory: '1gb'"):
        q.effective_requests({"containers": [box({"memory": "1gb"})]})


CM = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [box()]}, "BestEffort", id="none"),
        pytest.param({"containers": [box({"cpu": "0"})]}, "BestEffort", id="zero"),
        pytest.param({"containers": [box({"nvidia.com/gpu": "1"})]}, "BestEffort", id="gpu-only"),
        pytest.param({"containers": [box({"cpu": "1"})]}, "Burstable", id="request"),
        pytest.param({"containers": [box(CM, limits=CM)]}, "Guaranteed", id="equal"),
        pytest.param({"containers": [box(limits=CM)]}, "Guaranteed", id="limits-only"),
        pytest.param({"containers": [box(CM, limits=CM), box()]}, "Burstable", id="one-without"),
        pytest.param(
            {"containers": [box(CM, limits=CM)], "initContainers": [box()]},
            "Burstable",
            id="init-counts",
        ),
        pytest.param(
            {"containers": [box({"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"})]},
            "Burstable",
            id="unequal",
        ),
        pytest.param(
            {"containers": [box()], "resources": {"requests": CM, "limits": CM}},
            "Guaranteed",
            id="pod-level",
        ),
    ],
)
def test_qos_class(spec: dict[str, Any], expected: str) -> None:
    assert q.qos_class(spec) == expected
