"""The Workload of a group, and writes of it (`state.Mirror`)."""

from podgroup.model.objects import WorkloadView
from podgroup.state.group import Group
from podgroup.state.pod import Expectation


def named(group: Group, name: str) -> None:
    """Its Workload bears another name."""
    group.mirror.name = name


def seen(group: Group, view: WorkloadView, *, first: bool) -> None:
    """Its Workload is there: for the `first` time, or in another version."""
    mirror = group.mirror
    mirror.workload = view
    if first:
        mirror.refused = mirror.refusal_told = ""
        mirror.too_large = False
        mirror.refusals = mirror.rejections = 0
    if not view.active:
        mirror.deactivating = False


def replaced(group: Group) -> None:
    """Another Workload of the name took the place of the one that was known."""
    group.mirror.refused_version = ""


def gone(group: Group, *, lost: bool) -> None:
    """There is no Workload any more; `lost`: it was needed."""
    mirror = group.mirror
    mirror.lost = mirror.lost or lost
    mirror.workload = None
    mirror.unwritten = None
    mirror.refusals = mirror.rejections = 0
    mirror.refused_version = ""


def unserved(group: Group) -> None:
    """Workloads are not served at all, and what became of it is not known."""
    group.mirror.workload = None


def lost(group: Group, lost: bool) -> None:
    """The Workload that the group needs disappears, or is there (or not needed) again."""
    group.mirror.lost = lost


def expected(group: Group, expectation: Expectation | None) -> None:
    """A write of it is in flight; None: the last one ended."""
    group.mirror.expect = expectation


def written(group: Group, expectation: Expectation) -> None:
    """A write was applied."""
    group.mirror.rejections = 0
    group.mirror.unwritten = None
    group.mirror.expect = expectation


def refused(group: Group, version: str) -> None:
    """What was decided of the Workload at `version` was not done: wait for a newer one."""
    group.mirror.refused_version = version


def retried(group: Group) -> bool:
    """What was refused may be decided again; tells if anything was."""
    was, group.mirror.refused_version = group.mirror.refused_version, ""
    return bool(was)


def creation_refused(group: Group, why: str, *, too_large: bool) -> bool:
    """The API server would not create it, once more; tells if it says another reason."""
    other = why != group.mirror.refused
    group.mirror.refused = why
    group.mirror.too_large = too_large
    group.mirror.refusals += 1
    return other


def missed(group: Group) -> int:
    """A write did not find it; returns how often in a row that happened."""
    group.mirror.refusals += 1
    return group.mirror.refusals


def rejected(group: Group, action: str, why: str) -> int:
    """Another write was rejected; returns how often in a row that happened to this action."""
    mirror = group.mirror
    same = mirror.unwritten is not None and mirror.unwritten[0] == action
    mirror.rejections = mirror.rejections + 1 if same else 1
    mirror.unwritten = action, why
    return mirror.rejections


def refusal_reported(group: Group) -> None:
    """The first pod shows why there is no Workload."""
    group.mirror.refusal_told = group.mirror.refused


def deactivated(group: Group) -> None:
    """We decided to deactivate it."""
    group.mirror.deactivating = True


def checks_reported(group: Group, text: str) -> None:
    """Pods show what pending admission checks say."""
    group.mirror.checks_told = text


def trust_checks(group: Group) -> None:
    """What it says of admission checks is about the reservation that there is."""
    group.mirror.checks_stale = False


def distrust_checks(group: Group) -> None:
    """What it says of admission checks is not about a reservation to come."""
    checks = group.mirror.workload.checks if group.mirror.workload is not None else ()
    group.mirror.checks_stale = any(check.state != "Pending" for check in checks)
