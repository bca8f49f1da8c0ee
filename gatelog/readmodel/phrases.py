"""How a story words what happened: one phrase per kind of note and per decision.

Theory. `{pods}` means the names of the pods concerned. The tone is for colour: good, bad or none.
Quiet kinds are left out of stories, because another line says the same or readers seldom need them;
`--full` shows them all the same.

Invariant: phrases are in the words of the glossary (gate, ungate, excess, replaced, released).
"""

from podgroup.model.commands import COMMANDS

NOTES = {
    "PodSeen": ("created {pods}", ""),
    "PodRunning": ("running {pods}", ""),
    "PodSucceeded": ("succeeded {pods}", "good"),
    "PodFailed": ("failed {pods}", "bad"),
    "ContainerFailed": ("container failed {pods}", "bad"),
    "PodEnded": ("ended by node or cluster {pods}", "bad"),
    "PodDeletionRequested": ("being deleted {pods}", ""),
    "PodGone": ("gone {pods}", ""),
    "PodLeft": ("left the group {pods}", "bad"),
    "PodHidden": ("label taken off, or gone {pods}", "bad"),
    "PodFound": ("in sight again {pods}", ""),
    "PodResized": ("resized {pods}", ""),
    "GateRemoved": ("ungated {pods}", ""),
    "GateAdded": ("gate added {pods}", ""),
    "GroupComplete": ("group complete", ""),
    "QuotaReserved": ("quota reserved", ""),
    "StartReserved": ("start reserved", "good"),
    "GroupAdmitted": ("admitted", "good"),
    "GroupEvicted": ("evicted", "bad"),
    "GroupFinished": ("finished", "good"),
    "GroupGone": ("nothing of the group is left", ""),
    "QuotaReleased": ("quota released", ""),
    "GroupStopped": ("stopped by a person", "bad"),
    "GroupResumed": ("resumed by a person", ""),
    "WorkloadGone": ("Workload gone", "bad"),
    "WorkloadDeletionRequested": ("Workload being deleted", "bad"),
    "WorkloadRefused": ("Workload refused", "bad"),
    "TotalCountChanged": ("size changed {pods}", "bad"),
    "Parked": ("parked", "bad"),
    "DeltaRefused": ("not taken", "bad"),
    "OperatorActed": ("operator acted", ""),
    "ClusterRestored": ("cluster restored", "bad"),
}
"""Kind of note -> its text, and its tone. Other kinds are shown by their name."""

REASONED = frozenset(
    {
        "PodGone",
        "PodFailed",
        "ContainerFailed",
        "PodEnded",
        "GroupFinished",
        "QuotaReleased",
        "GroupEvicted",
    }
)
"""Kinds of notes whose reason comes before their message."""
OURS = frozenset({"GroupEvicted"})
"""Kinds of notes with the message of a decision: plain words, and Kueue's after them."""
QUIET_NOTES = frozenset(
    {"GroupSeen", "PodScheduled", "StateChanged", "WorkloadSeen", "TimerFired", "RelistStarted"}
)
REPEATED = {
    "GroupComplete": ("CreateWorkload", "ComposeGroup"),
    "GroupAdmitted": ("AdmitGroup",),
    "GroupResized": ("ResizeGroup",),
    "GroupEvicted": ("EvictGroup",),
    "GroupFinished": ("FinishGroup",),
}
"""Kind of note -> actions of decisions; such a decision says the same with its reason."""
REPEATED_BY = {"CreateWorkload": "ComposeGroup"}
"""Action of a decision -> action of another of the same message that says the same words."""

DECISIONS = {
    ("compose", "CreateWorkload"): ("group complete", ""),
    ("compose", "ComposeGroup"): ("group complete", ""),
    ("admit", "AdmitGroup"): ("admitted", "good"),
    ("ungate", "UngatePod"): ("ungate {pods}", "good"),
    ("excess", "DeletePod"): ("delete excess {pods}", "bad"),
    ("replace", "FinalizePod"): ("replaced {pods}", ""),
    ("yield", "ReleaseQuota"): ("quota released", ""),
    ("finish", "FinishGroup"): ("finished", "good"),
    ("release", "FinalizePod"): ("released {pods}", ""),
}
ACTIONS = {
    name: (command.about.says, command.about.tone)
    for name, command in COMMANDS.items()
    if command.about.says
}
QUIET_ACTIONS = frozenset(
    name
    for name, command in COMMANDS.items()
    if not command.about.says and not command.about.internal
)
