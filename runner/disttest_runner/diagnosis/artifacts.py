"""Whole dumps of a hang as files, for whoever gave a directory. What cannot be written is a warning only."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from disttest_contract.plan import RunPlan

DIGEST_CHARACTERS = 16
FILE_BYTES = 64 << 20
UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

# Of the environment: what steers torch and NCCL, and never a password.
SHOWN_PREFIXES = (
    "NCCL_",
    "TORCH_",
    "GLOO_",
    "CUDA_",
    "NVIDIA_",
    "OMP_",
    "PYTORCH_",
    "UCX_",
    "FI_",
    "PYTHONHASHSEED",
    "TP_",
)


def folder(plan: RunPlan, suite: str, case_id: str) -> Path:
    """Below the directory that the plan names: equal on all nodes, which may share it."""
    digest = hashlib.sha256(case_id.encode(errors="replace")).hexdigest()[:DIGEST_CHARACTERS]
    parts = (plan.namespace, plan.name, f"attempt-{plan.attempt}", suite, digest)
    return Path(plan.artifacts).joinpath(*(UNSAFE.sub("_", part).lstrip(".") or "_" for part in parts))


def write(place: Path, files: Mapping[str, str]) -> str:
    """Returns what went wrong, if anything did."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_bytes(text.encode(errors="replace")[:FILE_BYTES])
    except OSError as error:
        return f"what was seen of a hang could not be written to {place}: {error.strerror or error}"
    return ""


def environment(environ: Mapping[str, str], versions: Mapping[str, str], case_id: str, node_name: str) -> str:
    """One fact a line."""
    shown = {name: value for name, value in sorted(environ.items()) if name.startswith(SHOWN_PREFIXES)}
    facts = {
        "case": case_id,
        "node": node_name,
        **{f"version of {name}": text for name, text in versions.items()},
        **shown,
    }
    return "".join(f"{name}={value}\n" for name, value in facts.items())
