"""What to do about each cause, by how gatelog was installed: the one table of remedies.

Theory. A cause has one remedy, and its place depends on the installation: a terminal that runs
`gatelog up`, the single pod of profile standalone, or the deployments of profile production.
Missing objects are made again from the installed manifests, never from a directory of this
repository, which would change images and settings. `doctor`, `why`, the console and docs/runbook.md
print this table.

Invariant: pure; each command is in backquotes and can be pasted as it is but for words in capitals,
which are names that are not known here.
"""

import os
import re
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from gatelog.shell import statedir
from runtime.settings import Settings

How = Literal["", "up", "helm", "kustomize"]
NAMESPACE = "gatelog-system"
_QUOTED: Final = re.compile("`([^`]+)`")
RELEASE: Final = "HELM_RELEASE"
"""The variable in which the chart names its release to a part, which may not see deployments."""
_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Installation(Struct, frozen=True):
    """An installation; `how` is "" where it is not known.

    `pod` is what `kubectl exec` takes for a pod that commands can be run in, "" for none.
    """

    how: How = ""
    profile: Literal["standalone", "production"] = "production"
    namespace: str = NAMESPACE
    release: str = ""
    pod: str = ""

    @property
    def applied(self) -> bool:
        """Whether it is known to be in a cluster, made of manifests."""
        return self.how in _APPLY

    def run(self, command: str) -> str:
        """Return the line that runs a command where log and read model are; "" if nowhere."""
        if self.how == "up":
            return command
        if not self.pod:
            return ""
        return f"kubectl -n {self.namespace} exec {self.pod} -- {command}"


UNKNOWN: Final = Installation()


def here(settings: Settings) -> Installation:
    """Return the installation that this process belongs to, as far as its environment shows."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        own = _IN_POD.read_text().strip() if _IN_POD.is_file() else ""
        space = own or settings.lease.namespace or NAMESPACE
        release = os.environ.get(RELEASE, "")
        how: How = "helm" if release else ""
        if settings.nats.url:
            pod = "deploy/gatelog-projector"
            return Installation(how=how, namespace=space, release=release, pod=pod)
        return Installation(how, "standalone", space, release, pod="gatelog-0")
    if not settings.database.url and statedir.of(settings).path.exists():
        return Installation(how="up")
    return UNKNOWN


class Remedy(Struct, frozen=True):
    """What to do about a cause with `gatelog up`, in the single pod, and in production."""

    up: str
    standalone: str
    production: str


_APPLY = {
    "helm": "`helm -n {ns} get manifest {release} | kubectl annotate --local -f - -o yaml "
    "meta.helm.sh/release-name={release} meta.helm.sh/release-namespace={ns} | kubectl apply "
    "--server-side --force-conflicts --field-manager=helm -f -`",
    "kustomize": "`kubectl kustomize COPY | kubectl apply --server-side --force-conflicts -f -` "
    "(COPY: your copy of the overlay)",
}
"""Commands that apply the installed manifests again, with their images, settings and replicas.

Helm's manifest lacks the annotations that Helm writes: without them an object would belong to no
release.
"""
_BOTH = "{installed}"
_ONE_POD = "`kubectl -n {ns} delete pod gatelog-0`"

_ROLES = "`gatelog rights USER | kubectl apply --server-side -f -`, as who may grant them"
_AGAIN = "it is tried again within a minute of being mended"
_REFUSED = (
    "the answer names who refuses. A right that is gone (cannot ... resource): {installed}. A "
    "policy or a webhook: mend that one, gatelog's own included if it names another account; "
    + _AGAIN
)
_SECRET = (
    "made by the part itself (certificates: self): the last command has it made anew; made by "
    "cert-manager: `kubectl -n {ns} delete secret SECRET` has it made anew (SECRET: "
    "gatelog-webhook-tls or gatelog-serve-tls); of your own: put tls.crt and tls.key of a new one "
    "into it. Then: "
)
_READ = " reads it at once; by itself it takes two minutes"

REMEDIES: Final[dict[str, Remedy]] = {
    "nats full": Remedy(
        "make room on the disk of the state directory; the log's server is restarted by itself "
        "every 20 s",
        "make room on the volume (`kubectl -n {ns} exec gatelog-0 -- df -h /var/lib/gatelog`); the "
        "log's server is restarted by itself every 20 s",
        "make room on nats-server's volume, or enlarge it (`kubectl -n {ns} edit pvc "
        "data-nats-0`, if its StorageClass allows that), then: `kubectl -n {ns} delete pod nats-0` "
        "(after a failed write it stores nothing for as long as it lives, and the pauses between "
        "its restarts grow to 5 minutes)",
    ),
    "nats away": Remedy(
        "start gatelog up again",
        _ONE_POD,
        "`kubectl -n {ns} get pod nats-0` says how nats-server is; `kubectl -n {ns} delete pod "
        "nats-0 --grace-period=10` starts it anew, also where it hangs; if it is not there: "
        "{installed}. Are nats.url, nats.user and its password its own?",
    ),
    "streams": Remedy(
        "`gatelog migrate` makes streams and consumers, and so does a new start of gatelog up",
        _ONE_POD,
        "`kubectl -n {ns} rollout restart deployment gatelog-projector`, which begins with gatelog "
        "migrate, which makes streams and consumers",
    ),
    "schema": Remedy(
        "`gatelog migrate`, of the newest gatelog that wrote there",
        _ONE_POD,
        "`kubectl -n {ns} rollout restart deployment gatelog-projector`, which begins with gatelog "
        "migrate; a schema that is newer needs the image that made it",
    ),
    "keys": Remedy(
        "start gatelog up again",
        _ONE_POD,
        "set the clocks: 10 minutes apart is too much. Is the public key of projector."
        "signing_key_file in actuator.decision_keys_file? In a Secret of yours, put it there. "
        "Where a Job fills gatelog-nats: `kubectl -n {ns} patch secret gatelog-nats --type=merge "
        """-p '{{"data":{{"decision-keys.pem":null}}}}'`; `kubectl -n {ns} delete job -l """
        "app.kubernetes.io/component=secrets`; {installed}. Then: `kubectl -n {ns} rollout restart "
        "deployment gatelog-projector gatelog-actuator`; what was refused meanwhile is sent again "
        "a minute after that (projector.decision_timeout_s)",
    ),
    "database": Remedy(
        "is there room on the disk of the state directory, and may it be written? It is tried "
        "again by itself",
        "is there room on the volume (`kubectl -n {ns} exec gatelog-0 -- df -h /var/lib/gatelog`)? "
        "It is tried again by itself",
        "is PostgreSQL up, is there room, is its password right (Secret gatelog-database), may it "
        "be written (SHOW transaction_read_only), and who holds a lock (SELECT "
        "unnest(pg_blocking_pids(pid)) FROM pg_stat_activity; SELECT pg_terminate_backend(PID))? "
        "It is tried again by itself",
    ),
    "rights": Remedy(
        "give the user of the kubeconfig the roles: " + _ROLES,
        _BOTH,
        _BOTH,
    ),
    "objects": Remedy(
        "end gatelog up and start it: `gatelog up --install policy` (Kubernetes 1.36), or "
        "`gatelog up --install webhook`",
        _BOTH,
        _BOTH,
    ),
    "part away": Remedy(
        "`gatelog up`",
        "{installed}; if it ends again and again: `kubectl -n {ns} logs gatelog-0 --previous`",
        "{installed}; if it ends again and again: `kubectl -n {ns} logs deployment/gatelog-{part} "
        "--previous`; what keeps a projector from starting: `kubectl -n {ns} logs "
        "deployment/gatelog-projector -c migrate`",
    ),
    "refused": Remedy(
        "the answer names who refuses: a right (" + _ROLES + "), or a policy or webhook, gatelog's "
        "own included if it names another account; " + _AGAIN,
        _REFUSED,
        _REFUSED,
    ),
    "deleted group": Remedy(*("`kubectl -n NAMESPACE delete workload GROUP`",) * 3),
    "queue stopped": Remedy(
        *("`gatelog resume clusterqueue QUEUE`, or `gatelog resume localqueue QUEUE -n "
          "NAMESPACE`",) * 3
    ),
    "certificate": Remedy(
        "made by gatelog up: start it again; of your own: put a good certificate and its key into "
        "the files of webhook.cert_file and webhook.key_file; they are read again within half a "
        "minute",
        f"{_SECRET}{_ONE_POD}{_READ}",
        f"{_SECRET}`kubectl -n {{ns}} rollout restart deployment gatelog-{{part}}`{_READ}",
    ),
    "restored": Remedy(
        *("it lists everything again and goes on by itself: see that it may (the roles of its "
          "account may be older as well)",) * 3,
    ),
    "clock": Remedy(
        *("set the clock of that machine (`chronyc makestep`, `timedatectl set-ntp true`); times "
          "are compared with the API server's",) * 3,
    ),
    "unknown": Remedy(
        "its log says more",
        "`kubectl -n {ns} logs gatelog-0` says more",
        "`kubectl -n {ns} logs deployment/gatelog-{part}` says more",
    ),
}  # fmt: skip


def remedy(cause: str, at: Installation = UNKNOWN, part: str = "") -> str:
    """Return what to do about a cause in an installation."""
    known = REMEDIES[cause]
    text = known.up if at.how == "up" else getattr(known, at.profile)
    return _filled(text, at, part)


def commands(said: str) -> list[str]:
    """Return the commands of a remedy, in the order in which they are to be typed."""
    return _QUOTED.findall(said)


def _filled(text: str, at: Installation, part: str) -> str:
    if "{installed}" in text:
        ways = {how: line for how, line in _APPLY.items() if at.how in ("", how)} or _APPLY
        named = "; ".join(
            line if len(ways) == 1 else f"installed by {how}: {line}" for how, line in ways.items()
        )
        text = text.replace("{installed}", named)
    release = at.release or "gatelog"
    return text.format(ns=at.namespace, release=release, part=part or "PART")
