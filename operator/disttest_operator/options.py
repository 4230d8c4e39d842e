"""What the operator is told: flags, or environment variables DISTTEST_OPERATOR_* of the same names."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PREFIX = "DISTTEST_OPERATOR_"
DEFAULT_RUNNER_IMAGE = "disttest-runner:latest"
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    runner_image: str
    namespace: str
    metrics_address: str
    health_address: str
    fixed_nodes: bool
    lease_namespace: str
    log_level: str
    gpu_resource: str
    kubeconfig: str
    image_patience_seconds: int


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """A flag wins over its variable; ends the program with a sentence when one is wrong."""
    parser = argparse.ArgumentParser(
        prog="disttest_operator",
        description="Runs DistTests of a cluster.",
        epilog=f"Each flag has a variable: --runner-image is {PREFIX}RUNNER_IMAGE.",
    )

    def flag(name: str, default: str, words: str, **more: object) -> None:
        value = environ.get(PREFIX + name.upper().replace("-", "_"), default)
        parser.add_argument(f"--{name}", default=value, help=f"{words} (default: {default or 'none'})", **more)  # type: ignore[arg-type]  # passed on as it is

    flag("runner-image", DEFAULT_RUNNER_IMAGE, "image of runs that name none")
    flag("namespace", "", "the only namespace to look at; none: all")
    flag("metrics-address", ":8080", "where /metrics is served")
    flag("health-address", ":8081", "where /healthz and /readyz are served")
    flag("lease-namespace", environ.get("POD_NAMESPACE", "disttest-system"), "where the operators' Lease is")
    flag("log-level", "info", "how much is logged", choices=LEVELS)
    flag("gpu-resource", "nvidia.com/gpu", "resource of GPUs in runs that name none")
    flag("kubeconfig", "", "file to reach the cluster with; none: as the pod's ServiceAccount")
    flag("image-patience-seconds", "30", "how long an image may fail to be pulled", type=int)
    fixed = environ.get(PREFIX + "FIXED_NODES", "").lower() in {"1", "true", "yes"}
    parser.add_argument(
        "--fixed-nodes",
        action="store_true",
        default=fixed,
        help="no nodes will be added: too few GPUs end a run at once",
    )
    chosen = parser.parse_args(arguments)
    for name in ("metrics_address", "health_address"):
        if not getattr(chosen, name).rpartition(":")[2].isdecimal():
            parser.error(f"--{name.replace('_', '-')} {getattr(chosen, name)!r}: write host:port or :port")
    return Options(**vars(chosen))
