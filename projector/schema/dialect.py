"""Spellings that differ between databases, for SQL that is the same otherwise.

DuckDB holds no read model; it reads the read model's Parquet files (`archive.parquet`).

Invariant: on equal rows all give equal times, numbers and columns.
"""

from collections.abc import Callable

from msgspec import Struct

from podgroup.model.quantities import MAX_INT64


def swapped(statement: str, old: str, new: str) -> str:
    """Return a statement with `new` in place of the text `old`.

    Raises:
        ValueError: the statement lacks `old`: it was changed without the caller.
    """
    if old not in statement:
        raise ValueError(f"{old!r} is not in the statement {statement.strip()[:200]!r}")
    return statement.replace(old, new)


class Dialect(Struct, frozen=True):
    """Templates of SQL that the databases spell differently."""

    seconds: str
    """Seconds from {a} to {b}."""
    now: str
    before: str
    """{s} seconds before now."""
    each: str
    """FROM item giving {alias}.key and {alias}.value of the object {doc}."""
    each_or_none: str
    """The same of those with {on}; one row of nulls if there are none."""
    value: str
    """Number in {doc} taken by `each`."""
    text: str
    """Text in {doc} taken by `each`."""
    with_pods: str
    """The object {doc} with one more entry, `pods`."""
    nested: str
    """Object in {doc} taken by `each`."""
    object: str
    """Object made of the {key} and {value} of all rows."""
    document: str
    """The object {x} inside of another."""
    hour: str
    """Begin of the hour of {t}."""
    day: str
    next_hour: str
    next_day: str
    last: str
    """The later of {a} and {b}."""
    first: str
    date: str
    """Day of {t} as YYYY-MM-DD."""
    micros: str
    """Microseconds of {t} since 1970, a whole number."""
    mostly: str
    """The condition {where}, which most rows meet: an index would be a detour."""
    label: str
    """Label {doc}[parameter {name}], null if there is none."""
    time: str
    """The parameter {name} as a time."""
    total: str
    """Sum of amounts {x}, capped at 2^63-1."""
    roughly: str
    """Sum of amounts {x} that never overflows, for what only compares or divides."""
    whole: str
    """Number {x} as a whole number of 64 bits, at most 2^63-1."""


_HALF = 1 << 32
_HIGH = f"sum(({{x}}) / {_HALF})"
_LOW = f"sum(({{x}}) % {_HALF})"
IN_HALVES = f"""CAST(CASE WHEN {_HIGH} + {_LOW} / {_HALF} >= {_HALF // 2} THEN {MAX_INT64}
            ELSE {_HIGH} * {_HALF} + {_LOW} END AS BIGINT)"""
"""`Dialect.total` as both homes read it: sum() of SQLite ends the statement where it overflows."""
_WHOLE = f"CAST(least({{x}}, {MAX_INT64}) AS bigint)"
_TOTAL = f"CAST(CASE WHEN sum({{x}}) > {MAX_INT64} THEN {MAX_INT64} ELSE sum({{x}}) END AS bigint)"

POSTGRES = Dialect(
    seconds="extract(epoch FROM ({b}) - ({a}))",
    now="now()",
    before="now() - interval '{s} seconds'",
    each="CROSS JOIN LATERAL jsonb_each({doc}) AS {alias}(key, value)",
    each_or_none="LEFT JOIN LATERAL jsonb_each({doc}) AS {alias}(key, value) ON {on}",
    value="CAST({doc} #>> '{{}}' AS numeric)",
    text="{doc} #>> '{{}}'",
    with_pods="{doc} || jsonb_build_object('pods', 1)",
    nested="{doc}",
    object="coalesce(jsonb_object_agg({key}, {value}), '{{}}')",
    document="{x}",
    hour="date_trunc('hour', {t}, 'UTC')",
    day="date_trunc('day', {t}, 'UTC')",
    next_hour="{t} + interval '1 hour'",
    next_day="{t} + interval '24 hours'",
    last="greatest({a}, {b})",
    first="least({a}, {b})",
    date="to_char({t} AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    micros="CAST(extract(epoch FROM {t}) * 1000000 AS bigint)",
    mostly="{where}",
    label="{doc} ->> CAST(:{name} AS text)",
    time="CAST(:{name} AS timestamptz)",
    total=_TOTAL,
    roughly="sum({x})",
    whole=_WHOLE,
)

_ISO = "'%Y-%m-%dT%H:%M:%f000Z'"


SQLITE = Dialect(
    seconds="round((julianday({b}) - julianday({a})) * 86400.0, 3)",
    now=f"strftime({_ISO}, 'now')",
    before=f"strftime({_ISO}, 'now', '-{{s}} seconds')",
    each="CROSS JOIN json_each({doc}) AS {alias}",
    each_or_none="LEFT JOIN json_each({doc}) AS {alias} ON {on}",
    value="{doc}",
    text="{doc}",
    with_pods="json_set({doc}, '$.pods', 1)",
    nested="{doc}",
    object="json_group_object({key}, {value})",
    document="json({x})",
    hour="strftime('%Y-%m-%dT%H:00:00.000000Z', {t})",
    day="strftime('%Y-%m-%dT00:00:00.000000Z', {t})",
    next_hour="strftime('%Y-%m-%dT%H:00:00.000000Z', {t}, '+1 hour')",
    next_day="strftime('%Y-%m-%dT00:00:00.000000Z', {t}, '+1 day')",
    last="max({a}, {b})",
    first="min({a}, {b})",
    date="substr({t}, 1, 10)",
    # Whole numbers all the way: julianday knows milliseconds only.
    micros="(unixepoch(substr({t}, 1, 19)) * 1000000 + CAST(substr({t}, 21, 6) AS INTEGER))",
    mostly="likely({where})",
    label="""{doc} ->> ('$."' || :{name} || '"')""",  # a key with dots is a path there, unquoted
    time=":{name}",
    total=IN_HALVES,
    roughly="total({x})",
    whole=f"CAST(min({{x}}, {MAX_INT64}) AS BIGINT)",
)

_UTC = "AT TIME ZONE 'UTC'"

DUCKDB = Dialect(
    seconds="(epoch_us({b}) - epoch_us({a})) / 1000000.0",
    now="now()",
    before="now() - interval '{s} seconds'",
    each="CROSS JOIN json_each({doc}) AS {alias}",
    each_or_none="LEFT JOIN json_each({doc}) AS {alias} ON {on}",
    value="CAST({doc} ->> '$' AS BIGINT)",
    text="{doc} ->> '$'",
    with_pods="json_merge_patch({doc}, '{{\"pods\":1}}')",
    nested="{doc}",
    object="coalesce(json_group_object({key}, {value}), '{{}}')",
    document="json({x})",
    hour=f"date_trunc('hour', {{t}} {_UTC}) {_UTC}",
    day=f"date_trunc('day', {{t}} {_UTC}) {_UTC}",
    next_hour="{t} + interval '1 hour'",
    next_day="{t} + interval '24 hours'",
    last="greatest({a}, {b})",
    first="least({a}, {b})",
    date=f"strftime({{t}} {_UTC}, '%Y-%m-%d')",
    micros="epoch_us({t})",
    mostly="{where}",
    label="{doc} ->> ${name}",
    time="CAST(${name} AS TIMESTAMPTZ)",
    total=_TOTAL,
    roughly="sum({x})",
    whole=_WHOLE,
)


def by_flavor(d: Dialect, doc: str) -> str:
    """FROM items that open a document flavor -> resource -> amount: flavors `f`, resources `r`."""
    return f"""{d.each.format(doc=doc, alias="f")}
  {d.each.format(doc=d.nested.format(doc="f.value"), alias="r")}"""


def in_units(resource: str, amount: str) -> str:
    """Return an amount of the tables as people count it: cpu in cores, all else as it is."""
    return f"CASE WHEN {resource} = 'cpu' THEN {amount} / 1000.0 ELSE {amount} * 1.0 END"


def by_home(text: Callable[[Dialect], str]) -> dict[str, str]:
    """Return a statement as each home of the read model spells it, by SQLAlchemy's names."""
    return {"sqlite": text(SQLITE), "postgresql": text(POSTGRES)}


def home(name: str) -> Dialect:
    """Return the dialect of a home of the read model, by SQLAlchemy's name of its database."""
    return POSTGRES if name == "postgresql" else SQLITE
