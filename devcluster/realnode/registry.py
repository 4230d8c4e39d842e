"""The registry that real nodes pull from: it serves what `make images` made, and takes nothing."""

import json
from pathlib import Path


def command(state: Path, storage: Path, address: str) -> tuple[str, ...]:
    """Writes its configuration into the state directory; JSON is YAML."""
    file = state / "registry.json"
    configuration = {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(storage)},
            "maintenance": {"readonly": {"enabled": True}},
        },
        "http": {"addr": address},
    }
    file.write_text(json.dumps(configuration))
    return ("docker-registry", "serve", str(file))
