"""Whether the cluster's nodes could ever hold a gang."""

from disttest_operator.core.model import DistTest, Placement
from disttest_operator.core.views import NodeView


def suffices_without(test: DistTest, nodes: tuple[NodeView, ...], avoided: frozenset[str]) -> bool:
    """Whether the gang finds nodes, whoever uses them now, though these are avoided."""
    left = tuple(node for node in nodes if node.name not in avoided and node.is_schedulable)
    spec = test.spec
    wanted = spec.template.node_selector.items()
    fitting = [node for node in left if wanted <= node.labels.items()]
    has_nodes = len(fitting) >= (spec.nodes if spec.placement is Placement.SPREAD else 1)
    return has_nodes and not shortage(test, left)


def shortage(test: DistTest, nodes: tuple[NodeView, ...]) -> str:
    """A sentence if there are too few GPUs, whoever uses them now; else nothing. Taints are the scheduler's matter.

    Of no nodes nothing is claimed: we may have no right to see them.
    """
    spec = test.spec
    if not spec.gpus_per_node or not nodes:
        return ""
    wanted = spec.template.node_selector.items()
    sizes = {node.name: _gpus(node, spec.gpu_resource) for node in nodes if wanted <= node.labels.items()}
    fitting = [size for size in sizes.values() if size >= spec.gpus_per_node]
    slots = len(fitting) if spec.placement is Placement.SPREAD else sum(size // spec.gpus_per_node for size in fitting)
    if slots >= spec.nodes:
        return ""
    selected = " that match spec.template.spec.nodeSelector" if spec.template.node_selector else ""
    return (
        f"the run needs {spec.nodes} x {spec.gpus_per_node} {spec.gpu_resource}; of {len(sizes)} nodes{selected}, "
        f"{len(fitting)} have so many (most on one: {max(sizes.values(), default=0)}): "
        "lower spec.nodes or spec.gpusPerNode, or add nodes"
    )


def _gpus(node: NodeView, resource: str) -> int:
    amount = node.allocatable.get(resource, "0")
    return int(amount) if amount.isdecimal() else 0
