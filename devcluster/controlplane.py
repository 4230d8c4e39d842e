"""The command lines of the control plane; they run in the state directory."""

from collections.abc import Mapping

from devcluster.kubeconfig import TOKENS
from devcluster.network import API_PORT, GATEWAY, SERVICE_NETWORK

ETCD = "http://127.0.0.1:2379"
AUDIT_LOG = "logs/audit.log"
ETCD_PEER = "http://127.0.0.1:2380"
# No cloud, no routes and no load balancers here; everything else that a cluster has by default runs.
WITHOUT = ("node-ipam-controller", "node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller")
# With the default limits the controllers take 5 s to make their own service accounts, and 50 pods are bound a second.
RATES = ("--kube-api-qps=500", "--kube-api-burst=1000")

Programs = Mapping[str, tuple[str, ...]]


def etcd(programs: Programs) -> tuple[str, ...]:
    return (
        *programs["etcd"],
        "--name=dev",
        "--data-dir=etcd",
        "--unsafe-no-fsync",  # its data live for one run
        "--log-level=warn",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        f"--listen-peer-urls={ETCD_PEER}",
        f"--initial-advertise-peer-urls={ETCD_PEER}",
        f"--initial-cluster=dev={ETCD_PEER}",
    )


def api_server(programs: Programs, audit_policy: str = "") -> tuple[str, ...]:
    audit = (f"--audit-policy-file={audit_policy}", f"--audit-log-path={AUDIT_LOG}") if audit_policy else ()
    return (
        *programs["kube-apiserver"],
        f"--etcd-servers={ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={GATEWAY}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC",
        # Beyond the default ones, of which PodSecurity is one. The second is on in OpenShift: it asks for more rights.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--allow-privileged=true",  # so that it is PodSecurity that refuses, with its message
        f"--token-auth-file={TOKENS}",
        "--client-ca-file=pki/ca.crt",
        "--tls-cert-file=pki/apiserver.crt",
        "--tls-private-key-file=pki/apiserver.key",
        "--kubelet-client-certificate=pki/kubelet-client.crt",
        "--kubelet-client-key=pki/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=pki/serviceaccounts.pub",
        "--service-account-signing-key-file=pki/serviceaccounts.key",
        *audit,
    )


def controller_manager(programs: Programs) -> tuple[str, ...]:
    return (
        *programs["kube-controller-manager"],
        "--kubeconfig=kube-controller-manager.kubeconfig",
        "--leader-elect=false",
        "--use-service-account-credentials",
        "--root-ca-file=pki/ca.crt",
        "--service-account-private-key-file=pki/serviceaccounts.key",
        *RATES,
        "--controllers=" + ",".join(("*", *(f"-{name}" for name in WITHOUT))),
    )


def scheduler(programs: Programs) -> tuple[str, ...]:
    return (*programs["kube-scheduler"], "--kubeconfig=kube-scheduler.kubeconfig", "--leader-elect=false", *RATES)
