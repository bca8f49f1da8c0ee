"""The Workload of a group, and writes of it (`state.Mirror`)."""

from podgroup.model.objects import WorkloadView
from podgroup.state.group import Group
from podgroup.state.pod import Expectation


def named(group: Group, name: str) -> None:
    """The group's Workload has another name."""
    group.mirror.name = name


def seen(group: Group, view: WorkloadView, *, first: bool) -> None:
    """The group's Workload was seen: for the `first` time, or in another version."""
    mirror = group.mirror
    mirror.workload = view
    if first:
        mirror.refused = mirror.refusal_told = ""
        mirror.too_large = False
        mirror.refusals = mirror.rejections = 0
    if not view.active:
        mirror.deactivating = False


def replaced(group: Group) -> None:
    """Another Workload of the same name took the known Workload's place."""
    group.mirror.refused_version = ""


def gone(group: Group, *, lost: bool) -> None:
    """The Workload is gone; `lost`: it was needed."""
    mirror = group.mirror
    mirror.lost = mirror.lost or lost
    mirror.workload = None
    mirror.unwritten = None
    mirror.refusals = mirror.rejections = 0
    mirror.refused_version = ""


def unserved(group: Group) -> None:
    """The API server does not serve Workloads, so what became of the Workload is unknown."""
    group.mirror.workload = None


def lost(group: Group, lost: bool) -> None:
    """The needed Workload disappears, or (False) exists again or is not needed."""
    group.mirror.lost = lost


def expected(group: Group, expectation: Expectation | None) -> None:
    """A write of the Workload is in flight; None: the last write ended."""
    group.mirror.expect = expectation


def written(group: Group, expectation: Expectation) -> None:
    """A write was applied."""
    group.mirror.rejections = 0
    group.mirror.unwritten = None
    group.mirror.expect = expectation


def refused(group: Group, version: str) -> None:
    """A decision about the Workload at `version` was not carried out: await a newer version."""
    group.mirror.refused_version = version


def retried(group: Group) -> bool:
    """A refused decision may be made again; tells if there was one."""
    was, group.mirror.refused_version = group.mirror.refused_version, ""
    return bool(was)


def creation_refused(group: Group, why: str, *, too_large: bool) -> bool:
    """The API server refused once more to create the Workload; tells if the reason is new."""
    other = why != group.mirror.refused
    group.mirror.refused = why
    group.mirror.too_large = too_large
    group.mirror.refusals += 1
    return other


def missed(group: Group) -> int:
    """A write did not find the Workload; returns how often in a row."""
    group.mirror.refusals += 1
    return group.mirror.refusals


def rejected(group: Group, action: str, why: str) -> int:
    """Another write was rejected; returns how often in a row this action was."""
    mirror = group.mirror
    same = mirror.unwritten is not None and mirror.unwritten[0] == action
    mirror.rejections = mirror.rejections + 1 if same else 1
    mirror.unwritten = action, why
    return mirror.rejections


def refusal_reported(group: Group) -> None:
    """The first pod shows why there is no Workload."""
    group.mirror.refusal_told = group.mirror.refused


def deactivated(group: Group) -> None:
    """We decided to deactivate the Workload."""
    group.mirror.deactivating = True


def checks_reported(group: Group, text: str) -> None:
    """The pods show the messages of pending admission checks."""
    group.mirror.checks_told = text


def trust_checks(group: Group) -> None:
    """The Workload's check states are of the present reservation."""
    group.mirror.checks_stale = False


def distrust_checks(group: Group) -> None:
    """The Workload's check states are of a former reservation, and not of the next."""
    checks = group.mirror.workload.checks if group.mirror.workload is not None else ()
    group.mirror.checks_stale = any(check.state != "Pending" for check in checks)
