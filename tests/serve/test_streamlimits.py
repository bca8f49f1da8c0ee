"""F7: one user cannot take all watches and live pages; who is at the limit is told so."""

import ssl
from contextlib import AsyncExitStack, ExitStack, suppress

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatelog.serve.streamlimits import NoRoom, StreamLimiter, UserAtLimit
from tests.serve.conftest import PER_USER, World

WATCH = "/apis/gatelog.io/v1beta1/namespaces/{namespace}/podgroups?watch=1"
EVENTS = "/events?namespace={namespace}"


@given(st.lists(st.sampled_from("aaaabc"), max_size=60))
def test_no_user_keeps_another_out(users: list[str]) -> None:
    """Whoever comes, in whatever order: at most a share each, and a newcomer is always served."""
    limiter = StreamLimiter("watches", 12, 8)
    with ExitStack() as held:
        opened = dict.fromkeys("abc", 0)
        for user in users:
            with suppress(UserAtLimit):
                held.enter_context(limiter.opened(user))
                opened[user] += 1
        assert max(opened.values()) <= 8
        held.enter_context(limiter.opened("newcomer"))
    with ExitStack() as held:  # all were given back
        for _ in range(6):
            held.enter_context(limiter.opened("a"))
        with pytest.raises(UserAtLimit, match="'a' has 6 watches open, at most 6 are allowed now"):
            held.enter_context(limiter.opened("a"))


def test_what_all_may_have_is_bounded() -> None:
    limiter = StreamLimiter("watches", 3, 3)
    with ExitStack() as held:
        for user in "abc":
            held.enter_context(limiter.opened(user))
        with pytest.raises(NoRoom, match="3 watches are open already"):
            held.enter_context(limiter.opened("d"))


@pytest.mark.parametrize("path", [WATCH, EVENTS])
async def test_a_user_at_the_limit_is_told_so_and_others_are_served(
    world: World, path: str
) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, AsyncExitStack() as held:

        async def ask(user: str, namespace: str) -> aiohttp.ClientResponse:
            url = f"https://127.0.0.1:{world.port}{path.format(namespace=namespace)}"
            headers = {"Authorization": f"Bearer {user}-token"}
            return await held.enter_async_context(session.get(url, headers=headers))

        for _ in range(PER_USER):
            assert (await ask("bob", "other")).status == 200
        refused = await ask("bob", "other")
        assert refused.status == 429
        said = await refused.text()
        assert f"has {PER_USER}" in said and "serve.streams_per_user" in said
        assert (await ask("ann", "ns")).status == 200


def test_service_accounts_of_a_namespace_are_one_user() -> None:
    """Whoever may edit a namespace makes as many as they like: 22 of them took all 500 streams."""
    limiter = StreamLimiter("live pages", 500, 24)
    with ExitStack() as open_ones:

        def took(user: str, *groups: str) -> int:
            for count in range(500):
                try:
                    open_ones.enter_context(limiter.opened(user, groups))
                except UserAtLimit:
                    return count
            return 500

        accounts = [f"system:serviceaccount:team-a:sa{n}" for n in range(40)]
        assert sum(took(user, "system:serviceaccounts") for user in accounts) == 24
        assert took("system:serviceaccount:team-b:sa") == 24
        assert took("anna", "system:authenticated") == 24


def test_a_group_of_users_leaves_as_much_to_others() -> None:
    limiter = StreamLimiter("live pages", 100, 24)
    with ExitStack() as open_ones:
        taken = 0
        for n in range(40):
            with suppress(UserAtLimit):
                for _ in range(24):
                    user, groups = f"bot-{n}", ("bots", "system:authenticated")
                    open_ones.enter_context(limiter.opened(user, groups))
                    taken += 1
        assert taken == 50
        for _ in range(24):
            open_ones.enter_context(limiter.opened("anna", ("system:authenticated",)))
    with limiter.opened("bot-1", ("bots",)):
        pass
