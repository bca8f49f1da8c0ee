"""The rows of the parity suite: what Kueue's pod integration is tested for, in short.

Ids are shared with the notes the rows were made from: C controller, W webhook, H and U handlers and
helpers, M MultiKueue, S start information, I, IW, IM, IF, IT integration, E end to end, B where
gatelog differs on purpose (docs/differences.md). A letter after the id: Y behaviour of a pod
controller, o an optional feature, k plumbing inside Kueue.

Invariant: every id occurs once, and each row is covered by a test or has a reason why not.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One behaviour: its id, whether it is needed (Y, o, k; B rows are Y), and what it is."""

    id: str
    need: str
    text: str


SECTIONS: dict[str, str] = {
    "Controller: single pods and groups": """
C-01 Y gated single pod, admitted: ungated with flavor labels, queue labels, annotation
C-02 Y running single pod whose Workload has another count: pod stopped, Workload deleted
C-03 Y gated single pod with a queue: Workload with job-uid, controller, finalizer, podset main
C-04 Y queue label changed before quota is reserved: the Workload follows
C-05 Y the same for a group
C-06 Y the same for a serving group: the Workload does not follow
C-07 Y pod without the managed label: left alone
C-08 Y running pod of an evicted Workload: TerminationTarget with the eviction's reason and message
C-09 Y pod succeeded: Finished/Succeeded with the pod's message, pod released
C-10 Y the same when the pod has lost its finalizer before
C-11 Y ungated pod of a Workload that is not admitted: stopped, NotAdmitted
C-12 o annotations for provisioning requests go to the Workload, others do not
C-13 Y group of two: one Workload named like it, one podset of two, two owners that do not control
C-14 Y group named by annotation: the same
C-15 Y fast admission, one of three there: Workload for three with one owner
C-16 Y group with a maximum execution time: it is in the Workload
C-17 Y maximum execution time changed before quota is reserved: Workload updated in place
C-18 Y group whose Workload matches: nothing is written
C-19 Y a foreign Workload has the group's name: not adopted, WorkloadNameConflict
C-20 Y the same, and a gated pod is deleted: it may go
C-21 o gate for checking the owner off: the foreign Workload is rewritten
C-22 Y admitted group: both pods ungated, Started on each
C-23 Y one of two succeeded: not finished, one place reclaimable
C-24 Y both succeeded: Finished with 2/2, pods released
C-25 Y a pod of an admitted group vanished, shortage known: Workload kept as it is
C-26 Y gated group whose Workload is evicted and unreserved: stays gated
C-27 Y Workload finished, one pod left: pod and Workload released
C-28 Y pods name different queues: no Workload
C-29 Y Workload is being deleted: every pod stopped and released, Workload released
C-30 Y Workload has more places than there are pods: replacement starts, failed pod stays held
C-31 Y running, failed, succeeded and a replacement: failed released, owner added, one reclaimable
C-32 Y total two, one failed and two succeeded: finished, all three released
C-33 Y evicted while its pod is terminating without a node: quota and finalizer stay
C-34 Y evicted, its pod ended: quota released, requeued, execution time counted
C-35 Y Workload with a role that no pod has, pods terminating on a node: composed anew, pods held
C-36 Y all pods deleted before they were bound, admitted: Workload kept, pods held
C-37 Y two roles, one without pods, one with a deleted pod: Workload kept
C-38 Y all pods succeeded, no Workload: none is made, pods released
C-39 Y one gated, one succeeded, no Workload: composed for two
C-40 Y one gated, one failed, no Workload: failed one released, too few pods
C-41 Y unretriable group with failures, one of an unknown role: over, all released
C-42 Y two roles, failed, running and succeeded: only the success is reclaimable, failed one held
C-43 Y the same in a serving group: reclaimable pods are left alone
C-44 Y two gated pods where one is wanted, no Workload: the younger is deleted
C-45 Y three gated pods, unreserved Workload of two: the youngest is deleted
C-46 Y too many of one role and none of another: the gated younger one goes, shortage stays
C-47 Y surplus while a removal is not observed yet: nothing is decided again
C-48 Y same age, one gated: the gated one goes
C-49 Y total one, the second pod is terminating under a foreign finalizer: composed from the first
C-50 Y too few pods and all of them deleted: all released
C-51 o gate for finishing orphans off
C-52 Y single pod gone: Workload finished OwnerNotFound and released
C-53 Y group name without pods, Workload of a Job: untouched
C-54 o gate for checking the owner off: the Job's Workload is finished
C-55 Y group Workload whose pods are gone: released, not finished
C-56 Y prebuilt Workload whose pods are gone: released
C-57 Y replacement next to a failed and a deleted pod, one place still empty: deleted one held
C-58 Y evicted group with one pod terminating: the others are stopped
C-59 Y evicted for PodsReady: the reason says so
C-60 Y three ended pods, two replacements: those that ended first are released, two owners added
C-61 Y replaceable pod while another removal is not observed: no second removal for one place
C-62 Y a failed pod without finalizer uses up the replacement: the other stays held
C-63 Y label keys to copy, single pod
C-64 Y label keys to copy, group: union over its pods
C-65 Y pod index not below the total: no Workload
C-66 Y negative pod index: no Workload
C-67 Y copied label differs between pods: no Workload
C-68 o annotations to copy, single pod
C-69 o annotations to copy, group
C-70 o annotations to copy, gate off
C-71 o annotations to copy differ
C-72 o annotations to copy differ, gate off
C-73 Y quota reserved, checks pending with messages: Event on the single pod
C-74 Y the same for a group: Event on each pod
C-75 Y ungated unbound pod deleted, replacement there: deleted one released, replacement started
C-76 Y all pods of an admitted group pending: no shortage
C-77 Y one failed: WaitingForReplacementPods, PodsFailed
C-78 Y one deleted before it was bound: the same
C-79 Y evicted and pods missing: the condition takes reason and message of the eviction
C-80 Y evicted again for another reason: the condition follows
C-81 Y not evicted any more, pods still missing: the condition stays as it was
C-82 Y all replaced: the condition is False, PodsReady
C-83 Y prebuilt Workload, two ungated pods: both own it, both stopped while it is not admitted
C-84 Y prebuilt Workload already owned by one: one owner added
C-85 Y prebuilt Workload of another shape: OutOfSync, pods stopped
C-86 o retention of deactivated Workloads: pods deleted, quota released, not requeued
C-87 Y ready: single pod that is ready
C-88 Y ready: single pod that is not
C-89 Y ready: all three of a group
C-90 Y ready: fewer pods than the total
C-91 Y ready: one of the group is not
C-92 Y ready: no total count
C-93 Y ready: total count that is no number
C-94 Y single pod given information for two podsets: permanent failure
C-95 Y 18 roles: composed
C-96 Y 19 roles: not composed
C-97 Y no topology asked for: none requested
C-98 o topology required
C-99 o topology preferred
C-100 o topology required, feature off
C-101 o topology preferred, feature off
C-102 Y gate removal measured: group of two, one still gated
C-103 Y gate removal measured: both gated
C-104 Y gate removal measured: single pod
C-105 Y removing a finalizer fails once: done at the next try
C-106 Y which kinds of owners take care of their pods themselves
C-107 Y name of a pod's Workload: stable, other for another uid
C-108 Y stopping fails at either request: tried again until the pod is gone
C-109 Y a running single pod does not hold up the release of quota (here it does: B21)
C-110 Y nor do pods of a group that ended or whose grace period is over
C-111 Y a running pod within its grace period does
C-112 o quick release of quota: a running pod that is being deleted does not
C-113 Y without it, it does
C-114 o quick release: one terminating, one running
C-115 o quick release: all terminating
C-116 Y stopping a live pod: condition, deletion, Event
C-117 Y stopping a pod that is gone: no deletion, reported as stopped
""",
    "Webhook": """
W-01 Y suspending parent and queue: gate and hash, no finalizer, no label
W-02 Y queue: label, finalizer, gate, hash
W-03 Y queue and matching selectors: the same
W-04 Y no queue, all pods managed: the same without queue label
W-05 Y owner Job with a queue, kind not enabled: taken
W-06 Y owner Job with a queue, kind enabled: left alone
W-07 Y owner missing: refused
W-08 Y owner RayCluster: left alone
W-09 Y owner MPIJob: left alone
W-10 Y owner PyTorchJob: left alone
W-11 Y owner TFJob: left alone
W-12 Y owner XGBoostJob: left alone
W-13 Y owner PaddleJob: left alone
W-14 Y group name without total count: taken all the same
W-15 Y the same with other annotations
W-16 o topology asked for: topology gate after the admission gate
W-17 o index label named by annotation is copied
W-18 Y default queue exists, no label: it is given
W-19 Y no default queue, no label: left alone
W-20 Y default queue exists, label there: kept
W-21 Y namespace selected: taken
W-22 Y namespace not selected: left alone, whatever its queue
W-23 o old namespace selector matches
W-24 o old namespace selector does not match
W-25 o old pod selector matches
W-26 o old pod selector does not match
W-27 o default priority class is given
W-28 o default priority class, gate off
W-29 o priority class there: kept
W-30 o no default priority class: nothing
W-31 Y hash: managed label does not matter
W-32 Y hash: name of a volume does not matter
W-33 Y hash: claim of a volume does not matter
W-34 Y managed pod of a managed owner: warning
W-35 Y group name without total count: required
W-36 Y total count without group name: required
W-37 Y total count 0: invalid
W-38 Y total count empty: invalid
W-39 Y group name that is no DNS name: invalid
W-40 o required topology: accepted
W-41 o required and preferred topology: invalid
W-42 Y prebuilt Workload, single pod: accepted
W-43 Y prebuilt Workload named like the group: accepted
W-44 Y prebuilt Workload named otherwise: invalid
W-45 Y prebuilt by annotation: accepted
W-46 Y prebuilt by label only: accepted
W-47 Y prebuilt label differs from annotation: label ignored
W-48 Y prebuilt and group by annotation, equal: accepted
W-49 Y prebuilt and group by annotation, different: invalid
W-50 Y prebuilt label, group annotation, different: invalid
W-51 Y prebuilt annotation, group label, different: invalid
W-52 Y group name with a space: invalid
W-53 Y the same as a label
W-54 Y the same as an annotation
W-55 Y group label and annotation differ: label ignored
W-56 Y change: managed label kept on a pod of a managed owner: warning
W-57 Y change: managed label added: warning
W-58 Y change: the same with a suspending parent: none
W-59 Y change: group name without total count: required
W-60 Y change: total count 0: invalid
W-61 Y change: total count empty: invalid
W-62 Y change: another group name: invalid
W-63 Y change: another group label
W-64 Y change: another group annotation
W-65 Y change: group from label to annotation, other value: invalid
W-66 Y change: group from annotation to label, other value: invalid
W-67 Y change: group from label to annotation, same value: accepted
W-68 Y change: group given for the first time: accepted
W-69 Y change: unretriable taken back: forbidden
W-70 Y change: unretriable set to true: forbidden
W-71 Y change: prebuilt no longer like the group: invalid
W-72 Y change: prebuilt annotation unchanged: accepted
W-73 Y change: prebuilt annotation no longer like the group: invalid
""",
    "Handlers, helpers, start information": """
H-01 Y a blocking Workload without marker is gone: the group of its name is looked at
H-02 Y the same for one that a Job controls
H-03 Y group Workload gone: looked at once
H-04 o gate off: not looked at
H-05 k index of pods by group: no pod
H-06 k index of pods by group: no group
H-07 k index of pods by group: a group
U-01 k gate there
U-02 k another gate there
U-03 k no gate
U-04 k ungate: gate there
U-05 k ungate: gate missing
U-06 k gate: there already
U-07 k gate: added
U-08 Y index label missing
U-09 Y index label a number
U-10 Y index label no number
U-11 Y index label negative
U-12 Y index label equal to the bound
U-13 Y Failed has ended
U-14 Y Succeeded has ended
U-15 Y Running has not
U-16 Y shape without pod-level resources
U-17 Y shape with pod-level resources
U-18 Y hash differs by pod-level resources
U-19 Y hash without them is a fixed value
U-20 k gate removal metric: no tracker
U-21 k gate removal metric: leader
U-22 k gate removal metric: follower
U-23 k gate removal metric: not admitted
U-24 Y group name: none
U-25 Y group name: label
U-26 Y group name: annotation
U-27 Y group name: annotation with its gate off
U-28 Y group name: both, annotation wins
U-29 Y group name: both, annotation empty
U-30 Y group name: both with the gate off
U-31 k clock ahead
U-32 k clock behind
M-01 o remote pod missing
M-02 o remote pod there
M-03 o remote pod not scheduled
M-04 o remote pod scheduled
M-05 o deletion
M-06 o managed elsewhere
M-07 o group: missing pods created
M-08 o group: status
M-09 o group: deletion
M-10 o names as annotations, single
M-11 o names as annotations, group
S-01 Y one flavor: its selector and tolerations
S-02 Y several flavors: merged
S-03 Y one flavor for two resources: once
S-04 Y flavor missing
S-05 Y count not given: that of the podset
S-06 Y topology assigned: gate kept
S-07 Y topology assigned, feature off
S-08 Y nothing to merge
S-09 Y merge without conflict
S-10 Y toleration that is there
S-11 Y toleration equal but for an empty operator
S-12 Y the same the other way round
S-13 Y label conflict
S-14 Y annotation conflict
S-15 Y slice annotation, elastic
S-16 Y slice annotation, elastic, other value
S-17 Y slice annotation, not elastic
S-18 Y Workload annotation conflict
S-19 Y selector conflict
S-20 Y gates: none
S-21 Y gates: the same
S-22 Y gates: another
S-23 k labels: no map
S-24 k labels: add
S-25 k labels: change
""",
    "Integration": """
I-01 Y single pod from creation to release
I-02 Y admitted single pod deleted: it goes
I-03 Y foreign finalizer: only ours is taken
I-04 Y admitted single pod preempted: stopped with the reason
I-05 Y single pod preempted: not requeued
I-06 Y single pod, node failure: not requeued
I-07 o the same with its gate off: requeued
I-08 Y pod of a Job that has a queue: no Workload
I-09 Y ready admission check with updates: all merged at the start
I-10 Y prebuilt Workload and single pod: started, owned
I-11 Y group of two shapes: podsets in order of their names, both started, finished
I-12 Y fast admission: second pod starts as it comes
I-13 Y group evicted, replaced, admitted again under the same Workload, finished
I-14 Y group of one that fails and is replaced twice
I-15 Y unretriable replacement fails: over
I-16 Y surplus before and after admission is deleted
I-17 Y seven pods succeed and are deleted at once: all go
I-18 Y both pods deleted: Workload released
I-19 Y evicted and admitted again while its pod terminates: shortage keeps the reason, then ends
I-20 Y serving group: a success is not reclaimed, its successor starts
I-21 Y prebuilt Workload with roles of its own names
I-22 Y foreign Workload of the group's name: untouched, pods stay gated
I-23 Y foreign Workload, unmanaged pod of that group name deleted: untouched
I-24 Y group by annotation: admitted
I-25 Y group by label: admitted
I-26 Y prebuilt by annotation: adopted
I-27 Y prebuilt differs from the group: refused
I-28 Y group annotation without total count: refused
I-29 Y LocalQueue appears later: then admitted
I-30 Y two roles of two: all start, all released at the end
I-31 Y admission taken away: pod stopped
I-32 Y PodsReady timed out twice: evicted with back-off, then deactivated
I-33 Y back-off over, pods missing: not admitted before they are replaced
I-34 Y the same with fast admission
I-35 o topology, single pod
I-36 o topology, group
I-37 o node replacement
I-38 o node replacement, pods end first
I-39 o node replacement, no node free
I-40 Y single pods of a Deployment: one timed out and deleted, its successor is admitted
I-41 o annotations to copy: single
I-42 o annotations to copy: group
I-43 o annotations to copy: mismatch
I-44 o annotations to copy: gate off
IW-01 Y queue: gate, label, finalizer
IW-02 Y kube-system: untouched
IW-03 Y no queue: untouched
IW-04 Y owner of another uid: taken
IW-05 Y owner of this uid: left alone
IW-06 Y all pods managed, no queue: taken
IW-07 Y all pods managed, kube-system: untouched
IM-01 o remote single pod
IM-02 o remote group
IM-03 o further checks first
IF-01 o forced termination
IF-02 o forced termination: node becomes unreachable
IF-03 o forced termination: the same, later
IF-04 o forced termination: restart
IF-05 o forced termination: not asked for
IF-06 o forced termination: failed pod
IF-07 o forced termination: succeeded pod
IT-01 o topology: a pod of no queue ends: what it took of its node is free
IT-02 o topology: it is deleted: the same
IT-03 o topology: it has no node: it takes nothing
IT-04 o topology: pods that were placed count once, with their Workload
IT-05 o topology: it is terminating: it still takes its part
IT-06 o topology: a pod that was started for a node that failed is ended
IT-07 o topology: a node fails: the Workload of a single pod keeps its place
IT-08 o topology: the same when the node is found failed because its pod ended
IT-09 o topology: the Workload of several pods gets another node
IT-10 o topology: a replacement's rank is taken by a running pod: any free place
IT-11 o topology: NoExecute taint: the node has failed once its pods end, not before
IT-12 o topology: NoSchedule taint and a running pod: the node has not failed
IT-13 o topology: NoSchedule taint and no pod: it has
IT-14 o topology: a tainted node is replaced by one of the same domain
IT-15 o topology: a pod that comes late to a replaced node is ended
IT-16 o topology: no other node has room: the Workload is evicted
IT-17 o topology: several nodes fail: the Workload is evicted (gatelog: row P1)
IT-18 o topology: tainted nodes that the pods tolerate have not failed
IT-19 o topology: a node that is well again is none of the failed
""",
    "End to end": """
E-01 Y group of two from creation to clean-up
E-02 Y incomplete group can be deleted, complete one finishes
E-03 Y pod deleted while running: shortage, replacement, surplus, finish
E-04 Y ungated pod that cannot be scheduled is deleted and replaced
E-05 Y group of different shapes finishes
E-06 Y preempted group is replaced and resumes
E-07 Y pod gated for its parent gets queue and group later
E-08 Y pods of a Deployment: one Workload each
E-09 Y queue of a Deployment changed: old pods go, new ones are admitted
E-10 o topology, single pod
E-11 o topology, group
E-12 o topology, ranks
E-13 o topology, flavor only
E-14 Y flavor without topology: plain scheduling
E-15 Y StatefulSet: pods of a suspending parent
E-16 Y plain pod without queue: untouched
E-17 Y all pods managed: gated
E-18 Y all pods managed, kube-system: not gated
E-19 Y pods of a Deployment, all managed: gated
E-20 Y the same in kube-system: not gated
E-21 o pods of a StatefulSet
E-22 o the same in kube-system
E-23 Y queue in a namespace that is not selected: no Workload
E-24 o worker cluster: single pod
E-25 o worker cluster: condition
E-26 o worker cluster: Deployment
E-27 o worker cluster: group
E-28 o long group names of a leader-worker set
E-29 o metrics endpoint
""",
    "On purpose different (docs/differences.md)": """
B1 Y pods that contradict each other block the group and are named
B2 Y a gated pod that is deleted goes at once
B3 Y serving group: a successor is kept
B4 Y replacement of a terminating bound pod waits for its place
B5 Y unretriable group with failures ends as Failed
B6 Y a success is as good as ready
B7 Y a pod of an unknown role shows which roles there are
B8 Y a changed total count is told
B9 Y groups declared as pod-group-sets
B10 Y groups in the words of the first draft
B11 Y counters of gated, ungated and rejected pods
B12 Y reasons as intervals, reported once they have held
B13 Y who removed which gate
B14 Y constant work per event
B15 Y reactivation after any deactivation
B16 Y very large groups: bounded owner references
B17 Y pods that were never gated
B18 Y restart in the middle of a clean-up
B19 Y role hash of Kueue, or of KEP-976
B20 Y the pod that failed first is released first
B21 Y what runs keeps its quota until it has ended or is gone
B22 Y only the actuator takes a pod out of its queue
B23 Y pods whose owner Kueue queues, by policy
B24 Y a queue that others name after admission has passed the pod
B25 Y the managed label on a pod that has no gate
B26 Y who lets a pod of a suspending parent go
B27 Y what a mirror of a static pod is
B28 Y every pod at its gate says who holds its group back
B29 Y a Workload too large for etcd
B30 Y gate, label and finalizer together
B31 Y a pod whose condition cannot be written is stopped
B32 Y more labels, annotations and resources than a pod may have
B33 Y the queue of a Deployment or StatefulSet goes or changes
B34 Y a pod names a PodGroup of Kubernetes and no group of ours
B35 Y all pods of a running group are deleted and none comes back
B36 Y a StatefulSet is scaled while it is admitted
B37 Y pods of a StatefulSet or LeaderWorkerSet
B38 Y a pod of an old revision during a roll-out of a set
B39 Y would it start, before it is submitted
""",
}


def _parse(text: str) -> list[Row]:
    return [Row(*line.split(" ", 2)) for line in text.strip().splitlines()]


BY_SECTION: dict[str, list[Row]] = {name: _parse(text) for name, text in SECTIONS.items()}
ROWS: dict[str, Row] = {row.id: row for rows in BY_SECTION.values() for row in rows}


def _span(prefix: str, first: int, last: int) -> list[str]:
    return [f"{prefix}-{n:02d}" for n in range(first, last + 1)]


GATE_OFF = "describes Kueue with a feature gate switched off from its default"
MULTIKUEUE = "MultiKueue: pods of worker clusters are not gatelog's"
FORCED = "FailureRecoveryPolicy: an alpha feature apart from admission"
OLD_SELECTORS = "selectors of an old configuration format that Kueue itself no longer reads"
PLUMBING = "a function inside Kueue without behaviour of its own"

NOT_COVERED: dict[str, str] = {
    **dict.fromkeys(["C-21", "C-51", "C-54", "H-04"], GATE_OFF),
    **dict.fromkeys([*_span("M", 1, 11), *_span("IM", 1, 3), *_span("E", 24, 27)], MULTIKUEUE),
    **dict.fromkeys(_span("IF", 1, 7), FORCED),
    **dict.fromkeys(["W-25", "W-26"], OLD_SELECTORS),
    **dict.fromkeys(
        [*_span("H", 5, 7), *_span("U", 1, 7), *_span("U", 20, 23), "U-31", "U-32"], PLUMBING
    ),
    **dict.fromkeys(_span("S", 23, 25), PLUMBING),
    **dict.fromkeys(["E-21", "E-22"], "pods of a StatefulSet are gated for their parent: E-15"),
    "E-29": "Kueue's metric names; those of gatelog are B11",
}
"""Rows without a test, and why. A row is here or has a test, never both."""
