"""ClusterRoles that settings need, beyond those that gatelog always has.

Invariant: each is in a file of its own, and is installed only where a setting needs it.
"""

from podgroup.model.policy import counts_devices
from runtime.settings import Settings

ALWAYS = "common/rights.yaml"


def chosen(settings: Settings) -> dict[str, str]:
    """Return the file of each ClusterRole `gatelog-NAME` that settings ask for, by NAME."""
    asked = {
        "measure": bool(settings.ingest.measure_interval_s),
        "devices": counts_devices(settings.mode, settings.queueing),
        "owned-groups": bool(settings.queueing.owned_groups),
    }
    return {name: f"components/{name}/access.yaml" for name, wanted in asked.items() if wanted}
