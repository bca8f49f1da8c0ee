"""rules: all rules, in the order in which they run.

Theory. Rules are pure functions of the state that the fold has made of the log, and change the
state by conclusions alone (`helpers.context`). Each rule is a module of its name, which also says
what the rule reads and when it is due (`helpers.rule`). For each group that a message touched the
engine runs the rules before `admit`, then `admit`, then the others; and once, at the end, the rules
that look at no single group.

Invariant: deciding twice on the same state decides nothing the second time.
"""

from podgroup.log.events import SettingsRecorded
from podgroup.model.objects import kinds_watched
from podgroup.model.policy import Policy
from podgroup.rules import (
    abandon,
    admit,
    announce,
    backoff,
    charge,
    check,
    compose,
    count,
    discard,
    disown,
    dissolve,
    drain,
    enqueue,
    evict,
    excess,
    expire,
    explain,
    finish,
    follow,
    hasten,
    keep,
    lapse,
    mirror,
    mismatch,
    orphan,
    overrun,
    own,
    peak,
    postpone,
    prebuilt,
    protect,
    refuse,
    release,
    replace,
    report,
    resize,
    review,
    shortage,
    sweep,
    takeover,
    timeout,
    unadmit,
    ungate,
    wind_up,
    yield_,
)
from podgroup.rules.helpers.rule import ClusterRule, Rule

RULES: tuple[Rule | ClusterRule, ...] = (
    disown.RULE,
    keep.RULE,
    finish.START_FAILED,
    yield_.SINGLE,
    orphan.RULE,
    discard.RULE,
    excess.AGAIN,
    dissolve.RULE,
    finish.RULE,
    release.RULE,
    prebuilt.RULE,
    compose.RESTORE,
    compose.RULE,
    excess.RULE,
    peak.RULE,
    resize.RULE,
    own.RULE,
    lapse.RULE,
    abandon.RULE,
    replace.RULE,
    shortage.RULE,
    mismatch.RULE,
    follow.RULE,
    takeover.RULE,
    review.RULE,
    overrun.RULE,
    timeout.RULE,
    backoff.RULE,
    drain.RULE,
    evict.RULE,
    yield_.RULE,
    wind_up.RULE,
    unadmit.RULE,
    hasten.RULE,
    expire.RULE,
    charge.RULE,
    enqueue.RULE,
    admit.RULE,
    postpone.RULE,
    ungate.RULE,
    compose.CREATE,
    mirror.RULE,
    sweep.RULE,
    check.RULE,
    explain.RULE,
    report.RULE,
    refuse.RULE,
    protect.RULE,
    announce.RULE,
    count.RULE,
)
"""All rules, in order."""

VERSION = 3
"""Version of the rules, which grows when they would decide otherwise on an old log."""


def decides_by(mode: str, policy: Policy, gatelog: str) -> SettingsRecorded:
    """Return the event with the settings by which these rules decide; `gatelog` is its release."""
    return SettingsRecorded(
        mode=mode, policy=policy, kinds=kinds_watched(mode, policy), gatelog=gatelog, rules=VERSION
    )
