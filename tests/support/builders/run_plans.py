"""Run plans as an operator writes them."""

from disttest_contract.gang.plan import RunPlan, SuitePlan

THREE_NODES = RunPlan(
    namespace="n",
    name="x",
    uid="u",
    series="",
    attempt=1,
    nodes=3,
    ranks_per_node=8,
    backend="nccl",
    spread=True,
    suites=(SuitePlan(name="collectives", builtin="collectives"),),
    rendezvous_seconds=30,
    case_seconds=30,
    run_seconds=300,
)
