"""May we have namespaces here, and with which options of unshare?"""

import functools
import os
import shutil
import subprocess

from devcluster.errors import ClusterError, NoNamespaces

ISOLATION = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
USER = ("--user", "--map-root-user")
DEBIAN_PACKAGES = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "hostname": "hostname",
    "openssl": "openssl",
}
REMEDY = """\
this machine gives no namespaces to this user: {reason}
A cluster needs them to keep its processes, network and mounts apart. Ways to get them:
  - run as root outside of a container, or in one started with --privileged
  - as an ordinary user: sysctl kernel.unprivileged_userns_clone=1 (Debian),
    sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu 24.04), sysctl user.max_user_namespaces=15000"""


def check_programs() -> None:
    missing = [name for name in DEBIAN_PACKAGES if shutil.which(name) is None]
    if missing:
        packages = sorted({DEBIAN_PACKAGES[name] for name in missing})
        raise ClusterError(
            f"missing programs: {', '.join(missing)}; Debian and Ubuntu: apt install {' '.join(packages)}"
        )


@functools.cache
def unshare_options(*, rootless: bool = False) -> tuple[str, ...]:
    """The options that work here: root tries without a user namespace first, which is closer to a real node."""
    attempts: list[tuple[str, ...]] = [(*USER, *ISOLATION)]
    if os.geteuid() == 0 and not rootless:
        attempts.insert(0, ISOLATION)
    reasons = []
    for options in attempts:
        done = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return options
        reasons.append(done.stderr.strip())
    raise NoNamespaces(REMEDY.format(reason="; ".join(reasons)))
