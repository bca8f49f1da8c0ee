"""The shared fixtures themselves."""

import psycopg

from runtime.jetstream import Bus


def test_each_test_gets_an_empty_database(postgres_database: str) -> None:
    with psycopg.connect(postgres_database) as connection:
        tables = connection.execute("select count(*) from pg_tables where schemaname = 'public'")
        assert tables.fetchone() == (0,)
        name = connection.execute("select current_database()").fetchone()
    assert name is not None
    assert postgres_database.partition("?")[0].endswith(name[0])


async def test_bus_has_the_three_streams(bus: Bus) -> None:
    for stream in ("EVENTS", "DECISIONS", "PARKED"):
        assert (await bus.stream_state(stream)).name == stream
