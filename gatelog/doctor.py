"""`gatelog doctor`: checks of all that gatelog needs, with what to do about each problem.

Theory. Most trouble is a part that is missing or cannot be reached, and the parts are four:
settings, database, log, cluster. They are reported in that order and looked at independently, so a
part that is down does not hide the others. With only a kubeconfig, the cluster alone is looked at.

Invariant: the exit status is 1 exactly when a finding is `fail`; findings keep their order.
"""

from rich.table import Table
from rich.text import Text

from gatelog.examine.findings import Finding, skip
from gatelog.shell import statedir
from gatelog.shell.named import by_kubeconfig
from gatelog.terminal.console import BAD, GOOD, QUIET, WAIT
from runtime.settings import Settings

_SHOWN = {"skip": "not looked at"}
_STYLE = {"ok": GOOD, "warn": WAIT, "fail": f"bold {BAD}", "skip": QUIET}


async def examine(settings: Settings) -> list[Finding]:
    """Return all findings."""
    import asyncio

    from gatelog.examine import readmodel

    if await asyncio.to_thread(readmodel.is_copy, settings):
        findings, _ = await asyncio.to_thread(readmodel.examine, settings, copied=True)
        said = "the database is a copy, which names no"
        unseen = [skip(area, "reachable", f"{said} {area}") for area in ("log", "cluster")]
        return [_settings(settings), *findings, *unseen]
    # What they need takes longer to load than a copy to look at.
    from gatelog.examine import cluster, eventlog

    there, at = await cluster.examine(settings)
    installed = any(f.area == "deployments" and f.verdict != "skip" for f in there)
    if installed and _elsewhere(settings):
        line = at.run("gatelog doctor") or "the Job of deploy/doctor (helm test)"
        said = f"it is the deployments' in the cluster, and no setting here says where: {line}"
        here = [skip(area, "reachable", said) for area in ("database", "log")]
    else:
        seen = await asyncio.to_thread(readmodel.examine, settings, at)
        here = [*seen.findings, *await eventlog.examine(settings, seen.checkpoint, at)]
    return [_settings(settings), *here, *there]


def _elsewhere(settings: Settings) -> bool:
    """Return whether no setting here names a log or a read model, as on a user's laptop.

    The state directory of another cluster does not count.
    """
    if settings.database.url or settings.nats.url:
        return False
    state = statedir.of(settings)
    if not state.path.exists():
        return True
    named = by_kubeconfig(settings.kubernetes.kubeconfig, settings.kubernetes.context)
    return named is not None and state.cluster() not in ("", named.identity)


def _settings(settings: Settings) -> Finding:
    where = settings.nats.url or f"embedded log in {settings.state_dir}"
    detail = f"cluster {settings.cluster}, mode {settings.mode}, {where}"
    return Finding("settings", "read", "ok", detail)


def table(findings: list[Finding], *, lines: bool = False) -> Table:
    """Return the findings as a table, what to do below each that is not ok.

    With `lines`, for a pipe, each finding is one complete line.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    made.add_column(no_wrap=True)
    made.add_column(no_wrap=True, style=QUIET)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    area = ""
    for finding in findings:
        verdict = Text(_SHOWN.get(finding.verdict, finding.verdict), style=_STYLE[finding.verdict])
        text = Text(finding.detail)
        if finding.remedy:
            text.append(f"{' ' if lines else chr(10)}→ {finding.remedy}", style="italic")
        shown = "" if finding.area == area and not lines else finding.area
        made.add_row(verdict, shown, finding.what, text)
        area = finding.area
    return made


def conclusion(findings: list[Finding]) -> str:
    """Return one sentence about all findings."""
    failed = sum(f.verdict == "fail" for f in findings)
    warned = sum(f.verdict == "warn" for f in findings)
    if failed:
        return f"{failed} of {len(findings)} checks failed" + (
            f", {warned} with a warning" if warned else ""
        )
    unseen = list(dict.fromkeys(f"{f.area} {f.what}" for f in findings if f.verdict == "skip"))
    rest = f"; not looked at: {', '.join(unseen)}" if unseen else ""
    if warned:
        return f"it works; {warned} {'thing' if warned == 1 else 'things'} to look at{rest}"
    return f"all that was looked at is well{rest}" if unseen else "all is well"
