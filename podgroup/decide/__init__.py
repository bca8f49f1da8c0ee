"""decide: what rules there are, in the order in which they run.

Theory. Rules are pure functions of what the fold has made of the log, which they see through
read-only types and change through conclusions alone (`context.Deciding`). The engine runs `FIRST`,
then in builtin mode admission, then `THEN`. A rule says what it reads and when it is due where it
is written (`rule`). For no group, but for pods that cannot be read and for queues that changed,
there are `refuse`, `protect` and `announce`.

Invariant: deciding twice on the same state decides nothing the second time.
"""

from podgroup.decide.checking import CHECK
from podgroup.decide.closing import DISSOLVE, FINISH, LEAVE, RELEASE, SWEEP
from podgroup.decide.composing import COMPOSE
from podgroup.decide.disowning import DISOWN
from podgroup.decide.expiring import BEGIN, EXPIRE
from podgroup.decide.explaining import EXPLAIN
from podgroup.decide.failing import FAIL
from podgroup.decide.following import FOLLOW
from podgroup.decide.holding import CHARGE, DRAIN
from podgroup.decide.keeping import KEEP_IN_SIGHT
from podgroup.decide.mirroring import MIRROR
from podgroup.decide.prebuilt import PREBUILT
from podgroup.decide.reporting import REPORT
from podgroup.decide.restoring import RESTORE
from podgroup.decide.retaining import RETAIN
from podgroup.decide.reviewing import REVIEW
from podgroup.decide.rule import Rule
from podgroup.decide.staffing import STAFF
from podgroup.decide.starting import START, STOP
from podgroup.decide.takeover import TAKE_OVER
from podgroup.events import SettingsRecorded
from podgroup.objects import WATCHED_KINDS
from podgroup.policy import Policy

FIRST: tuple[Rule, ...] = (
    DISOWN,
    KEEP_IN_SIGHT,
    FAIL,
    LEAVE,
    DISSOLVE,
    FINISH,
    RELEASE,
    PREBUILT,
    RESTORE,
    COMPOSE,
    STAFF,
    FOLLOW,
    TAKE_OVER,
    REVIEW,
    EXPIRE,
    DRAIN,
    STOP,
    RETAIN,
    CHARGE,
)
"""Rules on a group before quota admission, in order."""
THEN: tuple[Rule, ...] = (BEGIN, START, MIRROR, SWEEP, CHECK, EXPLAIN, REPORT)
"""Rules on a group after quota admission, in order."""

RULES = 1
"""Version of the rules: it grows when they would decide otherwise on a log than before."""


def decides_by(mode: str, policy: Policy, gatelog: str) -> SettingsRecorded:
    """Return what a log has to say once these rules decide in it; `gatelog` is its version."""
    return SettingsRecorded(
        mode=mode, policy=policy, kinds=WATCHED_KINDS, gatelog=gatelog, rules=RULES
    )
