"""`gatelog doctor`: what is wrong, and what to do about it.

Invariant: exit code 1 exactly when a check failed; nothing is changed.
"""

import asyncio
import sys

from gatelog.shell import options
from gatelog.shell.errors import FAILED
from gatelog.terminal.printing import document

EXAMPLES = """
gatelog doctor
gatelog doctor --config /etc/gatelog/gatelog.toml --json | jq '.[] | select(.verdict=="fail")'
"""


def doctor(
    where: options.InstallationOptions,
    answer: options.OutputOptions,
    verbose: options.Verbose = False,
) -> int | None:
    """Look at everything gatelog needs: settings, database (reachable, schema, checkpoint, what is
    stuck), NATS (streams, how far the projector is behind), Kubernetes (version, permissions,
    kinds, what gates pods, who holds the Leases). Exit code 1 if a check failed. Changes
    nothing.
    """
    output = answer.form
    settings = where.settings()

    from gatelog import doctor as examination
    from gatelog.terminal import console
    from runtime.log import configure
    from runtime.settings import LogSettings

    configure(LogSettings(level=settings.log.level if verbose else "error"))
    findings = asyncio.run(examination.examine(settings))
    if output is not None:
        sys.stdout.write(document(findings, output))
    else:
        out = console.console()
        out.print(examination.table(findings, lines=not out.is_terminal))
        out.print(f"\n{examination.conclusion(findings)}")
    return FAILED if any(finding.verdict == "fail" for finding in findings) else None
