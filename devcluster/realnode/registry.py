"""The registry that real nodes pull from: it serves what `make images` made, and takes nothing."""

import json
from pathlib import Path

from devcluster.imaging.registry import configuration

READ_ONLY = {"maintenance": {"readonly": {"enabled": True}}}


def command(state: Path, storage: Path, address: str) -> tuple[str, ...]:
    """Writes its configuration into the state directory; JSON is YAML."""
    usual = configuration(storage, address)
    file = state / "registry.json"
    file.write_text(json.dumps(usual | {"storage": usual["storage"] | READ_ONLY}))
    return ("docker-registry", "serve", str(file))
