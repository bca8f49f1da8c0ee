"""Names: vectors of derived names, and the group name's two places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.model import limits, names


@pytest.mark.parametrize(
    ("pod", "uid", "expected"),
    [
        ("unit-test", "test-uid", "pod-unit-test-65369"),
        ("pod", "test-uid", "pod-pod-43ebf"),
        # Seen on a real cluster (recordings bad_requests and single_pod_lifecycle).
        ("foo", "f86d6325-f6cb-4dbe-9571-e22caad832ab", "pod-foo-af392"),
    ],
)
@pytest.mark.parity("C-107")
def test_workload_name_vectors(pod: str, uid: str, expected: str) -> None:
    assert names.workload_name(pod, uid) == expected


@pytest.mark.parity("C-107")
def test_workload_name_depends_on_uid_and_respects_limits() -> None:
    long = "p" * 253
    assert names.workload_name("a", "1") != names.workload_name("a", "2")
    assert len(names.workload_name(long, "u")) == 253
    assert names.workload_name(long, "u", max_bytes=63).startswith("pod-ppp")
    assert len(names.workload_name(long, "u", max_bytes=63)) == 63
    with pytest.raises(ValueError, match="negative"):
        names.workload_name("a", "u", max_bytes=3)


@given(st.text(max_size=80), st.integers(0, 90))
def test_truncate_cuts_bytes_and_keeps_characters_whole(text: str, limit: int) -> None:
    cut = limits.truncate(text, limit)
    assert text.startswith(cut)
    assert len(cut.encode()) <= limit
    # Nothing that still fitted was given up.
    rest = text[len(cut) :]
    assert not rest or len((cut + rest[0]).encode()) > limit


G = names.GROUP_NAME


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        pytest.param({}, {}, "", id="U-24-none"),
        pytest.param({G: "l"}, {}, "l", id="U-25-label"),
        pytest.param({}, {G: "a"}, "a", id="U-26-annotation"),
        pytest.param({G: "l"}, {G: "a"}, "a", id="U-28-both"),
        pytest.param({G: "l"}, {G: ""}, "l", id="U-29-empty-annotation"),
        pytest.param(None, None, "", id="absent-maps"),
    ],
)
def test_group_name(
    labels: dict[str, str] | None, annotations: dict[str, str] | None, expected: str
) -> None:
    assert names.group_name(labels, annotations) == expected


DOMAINS = {"gatelog.io", "leaderworkerset.sigs.k8s.io"}
"""Domains of keys besides Kueue's."""


def test_every_key_of_the_api_has_the_prefix() -> None:
    keys = {v for k, v in vars(names).items() if k.isupper() and isinstance(v, str) and "/" in v}
    assert len(keys) > 30
    others = {
        key
        for key in keys
        if (domain := key.split("/")[0]) not in DOMAINS and not domain.endswith("kueue.x-k8s.io")
    }
    assert not others, f"a slip in podgroup/model/names.py, or a domain for DOMAINS: {others}"
    assert names.MAX_ROLES == 18
