"""What goes wrong for the user of a cluster.

ClusterError          anything that the message explains
└─ NoNamespaces       this machine gives us no namespaces: nothing of ours can repair that, so a test may skip
"""


class DevClusterError(Exception):
    pass


class NoNamespaces(DevClusterError):  # noqa: N818 - names the state of the machine; a suffix would not say more
    pass
