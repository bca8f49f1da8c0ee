"""`gatelog secrets`: make the passwords and keys of the log that a Secret of the cluster lacks.

Theory. The chart runs it as a Job with the right to read and change that one Secret. It may be
repeated: present keys never change, but for the list that the log server reads.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed
from gatelog.shell.narrator import Narrator

if TYPE_CHECKING:
    from runtime.settings import Settings

EXAMPLES = """
gatelog secrets
gatelog secrets --namespace queueing --secret gatelog-nats
"""


def secrets(
    where: options.ClusterOptions,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Where gatelog is installed.")
    ] = "gatelog-system",
    secret: Annotated[
        str, typer.Option(metavar="NAME", help="The Secret to fill; it must be there.")
    ] = "gatelog-nats",
    verbose: options.Verbose = False,
) -> None:
    """Make the passwords of the log's users and the key that decisions are signed with, as far as
    a Secret of the cluster lacks them. What is there stays.
    """
    settings = where.settings()
    narrator = Narrator(settings.log, "secrets", verbose=verbose)
    made = asyncio.run(_fill(settings, namespace, secret))
    said = f"made {', '.join(made)}" if made else "nothing is lacking"
    narrator.done("secret", f"Secret {namespace}/{secret}: {said}", keys=made)


async def _fill(settings: "Settings", namespace: str, name: str) -> list[str]:
    from gatelog.cluster.passwords import SecretError, fill
    from runtime.kube import connect

    kube = await connect(settings.kubernetes, part="secrets")
    try:
        return await fill(kube, namespace, name, settings.cluster)
    except SecretError as error:
        raise CommandFailed(str(error)) from None
    finally:
        await kube.close()
