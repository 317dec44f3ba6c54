"""variable-policies: what two replicas that write 1 and 2 leave behind, rule by rule.

What to look at: the Variables page. Under ON_WRITE a write of the replicas is merged first: copies
stay equal, whatever the aggregation makes of the two values; without one each replica writes its
own copy, and they part. Under ON_READ replicas write their own copies without a word to each other,
and the aggregation comes when somebody outside reads. ON_READ with NONE cannot be read there at
all, so it is the one variable that no step fetches.
"""

from tracer.model.cluster import LOCALHOST, TaskName
from tracer.model.graph import Graph, Input, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.strategies.contexts import ReplicaContext, current
from tracer.strategies.distribution import Distribution
from tracer.strategies.values import POLICIES, DistributedVariable
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

DEVICES = tuple(str(TaskName(LOCALHOST, 0).device("CPU", number)) for number in range(2))
STEPS = 3


def workload() -> GraphWorkload:
    """Two replicas write 1 and 2 into variables of every policy, which are read from outside."""
    b = GraphBuilder()
    distribution = Distribution(b, DEVICES)
    with b.device(DEVICES[0]), distribution.scope():
        made = [
            distribution.variable(
                f"{when}/{how}".lower(), 0.0, synchronization=when, aggregation=how
            )
            for when, how in POLICIES
        ]
        written = [end for ends in distribution.run(_write, made).values for end in ends]
        with b.control_dependencies(written):
            reads = [_read(b, one) for one in made if one.policy.read != "refused"]
        b.op("NoOp", name="init", control_inputs=distribution.initializers)
    devices = {"A": DEVICES[0], "B": DEVICES[1]}
    return graph_workload(_updating(b.graph(), written), devices, reads, init="init", steps=STEPS)


def _write(made: list[DistributedVariable]) -> list[Input]:
    """A replica writes its number, from 1."""
    context = current()
    assert isinstance(context, ReplicaContext)
    return [variable.assign(context.replica + 1.0) for variable in made]


def _read(b: GraphBuilder, variable: DistributedVariable) -> str:
    read = b.op("Identity", variable.read(), name=f"read/{variable.name}")
    return f"{read.node}:0"


def _updating(graph: Graph, written: list[Input]) -> Graph:
    """After steps that update variables the copies are printed."""
    ends = {end.node for end in written}
    return Graph([_in_phase(node) if node.name in ends else node for node in graph.nodes])


def _in_phase(node: Node) -> Node:
    return node.with_(attrs={**node.attrs, "_phase": "update"})
