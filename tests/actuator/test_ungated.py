"""Pods kept from answers to ungatings: bounded, and given away once."""

from actuator.replies import Reply
from actuator.ungated import MAX_BYTES, POD_BYTES, UngatedPods


def reply(uid: str, size: int = 10, status: int = 200) -> Reply:
    return Reply(verb="PATCH", path="/p", status=status, body=b"x" * size, uid=uid)


async def test_a_pod_is_given_away_once_and_a_refusal_is_none() -> None:
    pods = UngatedPods()
    pods.remember(reply("a"))
    pods.remember(reply("b", status=422))
    assert (await pods.take("a"), await pods.take("b")) == (reply("a"), None)
    assert await pods.take("a") is None


async def test_pods_are_bounded_by_their_bytes() -> None:
    pods, size = UngatedPods(), 100_000
    count = 2 * MAX_BYTES // (size + POD_BYTES)
    for number in range(count):
        pods.remember(reply(str(number), size))
    pods.remember(reply("0"))
    pods.remember(reply("0"))
    kept = [number for number in range(count) if await pods.take(str(number)) is not None]
    assert kept[0] == 0
    assert kept[1:] == list(range(count - len(kept) + 1, count))
    assert (len(kept) - 1) * (size + POD_BYTES) <= MAX_BYTES < (len(kept) + 1) * (size + POD_BYTES)
