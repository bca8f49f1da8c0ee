"""Every answer of the API server has one name, and so does none at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actuator.replies import NOT_INSTALLED, NOT_SERVED, Reply
from actuator.verdicts import MAX_MESSAGE, gone_from, judge
from podgroup.log.outcomes import FINAL, TOO_LARGE
from tests.actuator.commands import pod_ref


def reply(status: int, **fields: object) -> Reply:
    values = {"verb": "PATCH", "path": "/p", "named": True, **fields}
    return Reply(status=status, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "status", "again", "whole"),
    [
        (reply(200, uid="u", resource_version="5"), "applied", False, False),
        (reply(201), "applied", False, False),
        (reply(404, reason="NotFound"), "obsolete", False, False),
        (reply(404, reason=NOT_INSTALLED), "rejected", False, False),
        (reply(404, reason=NOT_SERVED), "retrying", False, False),
        (reply(409, reason="Conflict"), "retrying", True, False),
        (reply(410, reason="Expired"), "retrying", True, False),
        (reply(422, fields=("metadata.uid",)), "obsolete", False, False),
        (reply(422, fields=("spec.nodeSelector",)), "rejected", False, False),
        (reply(422, named=False, message="the server rejected our"), "retrying", True, False),
        (
            reply(422, named=False, message='webhook "x" denied the request: no'),
            "rejected",
            False,
            False,
        ),
        (reply(422, named=False, verb="POST"), "rejected", False, False),
        (reply(400), "rejected", False, False),
        (reply(403), "rejected", False, False),
        (reply(405), "rejected", False, False),
        (reply(406), "rejected", False, False),
        (reply(413), "rejected", False, False),
        (reply(415), "rejected", False, False),
        (reply(302), "rejected", False, False),
        (reply(401), "retrying", False, True),
        (reply(429, retry_after_s=2.0), "retrying", False, True),
        (reply(408), "retrying", False, False),
        (reply(500), "retrying", False, False),
        (reply(502), "retrying", False, True),
        (reply(503), "retrying", False, True),
        (reply(504), "retrying", False, False),
        (reply(0, message="connection refused"), "retrying", False, True),
    ],
    ids=lambda value: f"{value.status} {value.reason}" if isinstance(value, Reply) else "",
)
def test_table(answer: Reply, status: str, again: bool, whole: bool) -> None:
    verdict = judge(answer)
    assert (verdict.status, verdict.again, verdict.whole_server) == (status, again, whole)
    assert verdict.http_status == answer.status
    assert verdict.retry_after_s == answer.retry_after_s
    assert "PATCH /p" in verdict.message or "POST /p" in verdict.message


def test_an_applied_verdict_carries_uid_and_version() -> None:
    verdict = judge(reply(200, uid="u", resource_version="5"))
    assert (verdict.uid, verdict.resource_version) == ("u", "5")


def test_forbidden_says_what_to_do() -> None:
    text = 'pods "p" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "pods"'
    assert "service account" in judge(reply(403, message=text)).message


def test_no_answer_says_so() -> None:
    assert "no answer (refused)" in judge(reply(0, message="refused")).message


@given(
    status=st.integers(0, 599),
    reason=st.sampled_from(["", "NotFound", NOT_SERVED, NOT_INSTALLED]),
    named=st.booleans(),
    message=st.text(max_size=2000),
)
def test_judge_is_total_and_bounded(status: int, reason: str, named: bool, message: str) -> None:
    verdict = judge(reply(status, reason=reason, named=named, message=message))
    assert verdict.status in FINAL | {"retrying"}
    assert len(verdict.message) <= MAX_MESSAGE
    assert verdict.status == "retrying" or not (verdict.again or verdict.whole_server)


def test_gone_from() -> None:
    target = pod_ref(uid="u0")
    assert gone_from(reply(200, uid="u0"), target) is None
    assert gone_from(reply(200, uid="other"), pod_ref(uid="")) is None
    other, missing = gone_from(reply(200, uid="other"), target), gone_from(reply(404), target)
    assert other is not None
    assert other.status == "obsolete"
    assert "other" in other.message
    assert missing is not None
    assert missing.status == "obsolete"
    failed = gone_from(reply(500), target)
    assert failed is not None
    assert failed.status == "retrying"


@pytest.mark.parametrize(
    ("answer", "final"),
    [
        (reply(413, message="Request entity too large: limit is 3145728"), True),
        (reply(500, message="etcdserver: request is too large", named=False), True),
        (
            reply(
                500,
                message="rpc error: code = ResourceExhausted desc = trying to send message larger "
                "than max (2100170 vs. 2097152)",
            ),
            True,
        ),
        (reply(500, message="etcdserver: leader changed"), False),
        (reply(504, message="etcdserver: request timed out"), False),
        (reply(429, message="etcdserver: too many requests"), False),
    ],
)
@pytest.mark.parametrize("verb", ["POST", "PATCH", "PUT"])
def test_what_is_too_large_is_refused_for_good_and_nothing_else_is(
    answer: Reply, final: bool, verb: str
) -> None:
    verdict = judge(replace(answer, verb=verb))
    assert (verdict.status == "rejected") is final
    assert (verdict.http_status == TOO_LARGE) is final
