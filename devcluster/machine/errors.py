"""Errors for the user of a cluster.

DevClusterError       the message explains it
└─ NoNamespaces       this machine allows no namespaces, so a test may skip
"""


class DevClusterError(Exception):
    pass


class NoNamespaces(DevClusterError):  # noqa: N818 - names the state of the machine; a suffix would not say more
    pass
