"""The command line: build, images, up, down, status, kubectl, exec."""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from devcluster import real_node_setup
from devcluster.controlplane import kubeconfig
from devcluster.controlplane.lifecycle import DevCluster
from devcluster.imaging import build_images
from devcluster.machine import cache, processes, settings
from devcluster.machine.settings import DevClusterError, Image
from devcluster.programs import kubernetes
from devcluster.programs.gobuild import Say

OPT_IN = "DEVCLUSTER_USE_KUBECONFIG"


def foreign_kubeconfig(given: Path | None = None) -> Path | None:
    """Return the kubeconfig of a cluster that is not ours, if the user chose one."""
    if given is not None:
        chosen = given
    elif os.environ.get(OPT_IN) == "1":
        if not os.environ.get("KUBECONFIG"):
            raise DevClusterError(f"{OPT_IN}=1 requires KUBECONFIG, which is not set")
        chosen = Path(os.environ["KUBECONFIG"])
    else:
        return None
    if not chosen.is_file():
        raise DevClusterError(f"{chosen} is not a kubeconfig file")
    return chosen.resolve()


def note_on_ignored_kubeconfig() -> str:
    if "KUBECONFIG" not in os.environ:
        return ""
    return f"KUBECONFIG is set but not used: a local cluster starts. To use KUBECONFIG, set {OPT_IN}=1"


def kubectl(say: Say) -> tuple[str, ...]:
    """Return the command of kubectl; for a cluster that is not ours, one on PATH saves the build."""
    if foreign_kubeconfig() and (found := shutil.which("kubectl")):
        return (found,)
    return kubernetes.kubectl(say)


def parse_image(places: Sequence[str], variables: Sequence[str]) -> tuple[Image, ...]:
    directories: dict[str, str] = {}
    environments: dict[str, dict[str, str]] = {}
    for place in places:
        name, equals, directory = place.partition("=")
        if not (name and equals and Path(directory).is_dir()):
            raise DevClusterError(f"--image {place}: write NAME=DIR, where DIR is a directory")
        directories[name] = str(Path(directory).absolute())  # not resolved: a venv is where its symlink says
        environments[name] = {}
    for variable in variables:
        image, assignment = _image_of(variable, directories)
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise DevClusterError(f"--image-env {variable}: write NAME:KEY=VALUE")
        environments[image][key] = value
    return tuple(Image(name=name, directory=place, env=environments[name]) for name, place in directories.items())


def _image_of(variable: str, known: dict[str, str]) -> tuple[str, str]:
    """Split NAME:KEY=VALUE at the colon after a known name, since names have colons too."""
    for name in known:
        if variable.startswith(f"{name}:"):
            return name, variable.removeprefix(f"{name}:")
    raise DevClusterError(f"--image-env {variable}: no --image of that name; given: {', '.join(known) or 'none'}")


PASSED_ON = ("kubectl", "exec")  # their further arguments belong to another program
PLAIN = ("build", "images", "up", "down", "status", "clean")
WITHOUT_CLUSTER = "kustomize"  # the subcommand of kubectl that only reads files
WATCH_SECONDS = 0.5
EPILOG = """\
python -m devcluster up --nodes 2 --image disttest-runner:dev=.venv
python -m devcluster kubectl get nodes
python -m devcluster exec curl http://POD-ADDRESS:9090/metrics      (in the cluster's network)
python -m devcluster down"""


def say(text: str) -> None:
    print(text, flush=True)


def main(arguments: Sequence[str]) -> int:
    own, passed_on = _split(arguments)
    options = _parser().parse_args(own)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)  # like Ctrl-C: by an exception, so that what was started is ended
    try:
        return _run(options, passed_on)
    except DevClusterError as error:
        print(f"devcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    for number, argument in enumerate(arguments):
        if argument in PASSED_ON:
            further = list(arguments[number + 1 :])
            return list(arguments[: number + 1]), further[1:] if further[:1] == ["--"] else further
        if argument in PLAIN:
            break
    return list(arguments), []


def _parser() -> argparse.ArgumentParser:
    which = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    which.add_argument("--name", help="Name of the cluster (default: dev)")
    which.add_argument("--state", type=Path, help="State directory of the cluster (default: in the cache, by name)")
    which.add_argument("--kubeconfig", type=Path, help="Use the cluster of this kubeconfig instead of a local one")
    parser = argparse.ArgumentParser(
        prog="python -m devcluster",
        parents=[which],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    built = commands.add_parser("build", help="Build the Kubernetes programs, if they are not in the cache")
    built.add_argument(
        "--unless-on-path", action="store_true", help="Use the programs on PATH if all of them are there"
    )
    build_images.add_options(
        commands.add_parser("images", help="Build the images of operator and runner (requires root)")
    )
    up = commands.add_parser("up", parents=[which], help="Start a cluster and wait until its nodes are Ready")
    up.add_argument("--nodes", type=int, default=2, help="Number of process nodes (default: 2)")
    up.add_argument(
        "--real-nodes",
        type=int,
        default=0,
        help="Number of nodes with containerd and kubelet (requires root and `make images`)",
    )
    up.add_argument(
        "--stub-nodes", type=int, default=0, help="Number of nodes whose pods run nothing; annotations set their end"
    )
    up.add_argument("--gpus", type=int, default=0, help="Number of nvidia.com/gpu per node, for the scheduler only")
    up.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="Directory for an image name; pods have DIR/bin first on PATH",
    )
    up.add_argument(
        "--image-env", action="append", default=[], metavar="NAME:KEY=VALUE", help="Environment variable of an image"
    )
    up.add_argument(
        "--foreground",
        action="store_true",
        help="Run in the foreground; the cluster ends with this process or its parent",
    )
    up.add_argument("--rootless", action="store_true", help="Use a user namespace even for root")
    commands.add_parser("down", parents=[which], help="Stop a cluster and everything that runs in it")
    commands.add_parser("status", parents=[which], help="Print whether the cluster runs")
    commands.add_parser("clean", help="Remove cgroups and files that real nodes of killed clusters left")
    commands.add_parser("kubectl", help="Run kubectl as administrator of the cluster, with all further arguments")
    commands.add_parser("exec", help="Run a program in the network of the cluster")
    return parser


def _run(options: argparse.Namespace, passed_on: list[str]) -> int:
    foreign = foreign_kubeconfig(getattr(options, "kubeconfig", None))
    if options.command == "build":
        say(kubernetes.programs(say, on_path=options.unless_on_path)["kube-apiserver"][0])
        return 0
    if options.command == "images":
        build_images.images(build_images.parse(options), say)
        return 0
    if options.command == "clean":
        say("\n".join(f"removed: {left}" for left in real_node_setup.clean()) or "nothing to remove")
        return 0
    if foreign:
        return _run_foreign(options.command, foreign, passed_on)
    state: Path | None = getattr(options, "state", None)
    cluster = DevCluster(state.resolve() if state else cache.cluster(getattr(options, "name", "dev")))
    return _run_own(options, cluster, passed_on)


def _run_own(options: argparse.Namespace, cluster: DevCluster, passed_on: list[str]) -> int:
    match options.command:
        case "up":
            return _up(options, cluster)
        case "down":
            say(f"{cluster.state.name} has ended" if cluster.stop() else f"{cluster.state.name} was not running")
            return 0
        case "status":
            return _status(cluster)
        case "kubectl":
            return _kubectl(cluster, passed_on)
        case _:
            return _exec(cluster, passed_on)


def _run_foreign(command: str, foreign: Path, passed_on: list[str]) -> int:
    if command == "kubectl":
        return _become_kubectl(foreign, passed_on)
    if command == "exec":
        raise DevClusterError(
            f"exec works with local clusters only, not with {foreign}. Use kubectl port-forward or kubectl exec"
        )
    say(f"{command}: nothing to do, because the cluster of {foreign} is not a local cluster")
    return 0


def _up(options: argparse.Namespace, cluster: DevCluster) -> int:
    if options.foreground:
        processes.end_with_parent()
    if note := note_on_ignored_kubeconfig():
        say(note)
    wanted = settings.ClusterSettings(
        real=real_node_setup.real_nodes(options.real_nodes, cluster.state, say) if options.real_nodes else None,
        programs=kubernetes.programs(say),
        nodes=options.nodes,
        gpus=options.gpus,
        stubs=options.stub_nodes,
        images=parse_image(options.image, options.image_env),
    )
    seconds = cluster.start(wanted, owned=options.foreground, rootless=options.rootless)
    try:
        _greet(cluster, seconds)
        while options.foreground:
            if not cluster.is_running():
                raise DevClusterError(f"the cluster ended; the reason is in {cluster.state / 'cluster.log'}")
            time.sleep(WATCH_SECONDS)
    finally:
        if options.foreground:
            cluster.stop()
    return 0


def _greet(cluster: DevCluster, seconds: dict[str, float]) -> None:
    steps = ", ".join(f"{step} {taken} s" for step, taken in seconds.items())
    say(f"{cluster.state.name} is ready ({steps}); logs are in {cluster.state / 'logs'}")
    say(f"export KUBECONFIG={cluster.kubeconfig}")


def _status(cluster: DevCluster) -> int:
    if not cluster.is_running():
        say(f"{cluster.state.name} does not run")
        return 3  # as init scripts and systemctl answer for "not running"
    say(f"{cluster.state.name} runs, process {cluster.first_process()}, state in {cluster.state}")
    return _become_kubectl(cluster.kubeconfig, ["get", "nodes"])


def _kubectl(cluster: DevCluster, arguments: list[str]) -> int:
    if arguments[:1] != [WITHOUT_CLUSTER] and not cluster.is_running():
        raise DevClusterError(f"{cluster.state.name} does not run; start it with: python -m devcluster up")
    return _become_kubectl(cluster.kubeconfig, arguments)


def _become_kubectl(config: Path, arguments: list[str]) -> int:
    command = [*kubectl(say), *arguments]
    os.execvpe(command[0], command, {**os.environ, "KUBECONFIG": str(config)})  # noqa: S606 - no shell is wanted


def _exec(cluster: DevCluster, arguments: list[str]) -> int:
    if not arguments:
        raise DevClusterError("exec: name the program to run in the cluster's network")
    command = cluster.command_inside(arguments)
    environment = {**os.environ, "KUBECONFIG": str(cluster.state / kubeconfig.INSIDE)}
    os.execvpe(command[0], command, environment)  # noqa: S606 - no shell is wanted
