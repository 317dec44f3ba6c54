"""What dtype an output has, and how many outputs a node has, read from attributes alone.

Passes and readers need this before any kernel exists. A node whose `specs` are known (a captured
one) answers from them; a TF op by the table below, which follows the op's registration in TF.
"""

from collections.abc import Mapping

from tracer.model.graph import GraphError, Input, Node

#: attributes that name the output's dtype, the most telling one first
_DTYPE_ATTRS = (
    "out_type",
    "output_type",
    "DstT",
    "Tout",
    "tensor_type",
    "type",
    "dtype",
    "elem_type",
    "T",
    "Tparams",
    "Tidx",
)

_BY_ATTRIBUTE = ""  #: stands in the table for "as the attributes say, else as input 0"

_OUTPUTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd"),
        ("bool",),
    ),
    **dict.fromkeys(
        ("LogicalOr", "LogicalNot", "All", "Any", "LoopCond", "IsFinite", "IsInf", "IsNan"),
        ("bool",),
    ),
    **dict.fromkeys(
        ("ApproximateEqual", "InTopKV2", "IsVariableInitialized", "VarIsInitializedOp"), ("bool",)
    ),
    "Where": ("int64",),
    "VarHandleOp": ("resource",),
    "Switch": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "Merge": (_BY_ATTRIBUTE, "int32"),
    "BroadcastGradientArgs": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "SparseSoftmaxCrossEntropyWithLogits": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "SoftmaxCrossEntropyWithLogits": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "TopKV2": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "Unique": (_BY_ATTRIBUTE, _BY_ATTRIBUTE),
    "UniqueWithCounts": (_BY_ATTRIBUTE, _BY_ATTRIBUTE, _BY_ATTRIBUTE),
    **dict.fromkeys(
        ("NoOp", "Assert", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"), ()
    ),
    **dict.fromkeys(
        ("ResourceApplyGradientDescent", "ResourceApplyMomentum", "ResourceApplyAdam"), ()
    ),
    **dict.fromkeys(("ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate"), ()),
    **dict.fromkeys(("_Send", "_HostSend", "_Retval"), ()),
    **dict.fromkeys(("QueueEnqueueV2", "QueueCloseV2", "SaveV2"), ()),
    "FIFOQueueV2": ("resource",),
    "QueueIsClosedV2": ("bool",),
    "QueueSizeV2": ("int32",),
    "ShardedFilename": ("string",),
    "SparseAccumulatorTakeGradient": ("int64", _BY_ATTRIBUTE, "int64"),
}  #: ops that are not "one output, as the attributes say"

_NUMBERED = {
    "ConcatOffset": "N",
    "DynamicPartition": "num_partitions",
    "ShapeN": "N",
    "Split": "num_split",
    "SplitV": "num_split",
    "Unpack": "num",
}
#: attributes that list the dtype of each output
_LISTED = {"QueueDequeueV2": "component_types", "RestoreV2": "dtypes"}
#: attributes that name the dtype of all outputs but the first
_OF_INDICES = {"TopKV2": "index_type", "Unique": "out_idx", "UniqueWithCounts": "out_idx"}
_UNSTATED = {
    "Shape": "int32",
    "ShapeN": "int32",
    "Size": "int32",
    "Rank": "int32",
    "ArgMax": "int64",
    "ArgMin": "int64",
}


def num_outputs(node: Node) -> int:
    if node.specs:
        return len(node.specs)
    if node.op in _NUMBERED:
        return int(node.attrs.get(_NUMBERED[node.op], 1))
    if node.op in _LISTED:
        return len(node.attrs.get(_LISTED[node.op], ()))
    if node.op == "IdentityN":
        return len(node.inputs)
    return len(_OUTPUTS.get(node.op, (_BY_ATTRIBUTE,)))


def dtype_of(
    graph: Mapping[str, Node], output: Input, known: dict[Input, str] | None = None
) -> str:
    """TF's name of the dtype of one output; raises GraphError if nothing tells it.

    `known` remembers answers, so that many questions about one graph do not walk it again.
    """
    known = {} if known is None else known
    walked: dict[Input, None] = {}
    found = ""
    while not found and output not in walked:
        walked[output] = None
        node = graph[output.node]
        found = known.get(output) or _stated(node, output.port)
        if not found and node.inputs:
            output = node.inputs[0]
    if not found:
        raise GraphError(
            f"the dtype of output {output} is unknown: op {graph[output.node].op!r} has none of "
            f"the attributes {', '.join(_DTYPE_ATTRS)} and no specs"
        )
    known |= dict.fromkeys(walked, found)
    return found


def _stated(node: Node, port: int) -> str:
    if port < len(node.specs):
        return node.specs[port].dtype
    outputs = _OUTPUTS.get(node.op, ())
    if port < len(outputs) and outputs[port]:
        return outputs[port]
    if node.op in _LISTED:
        listed = node.attrs.get(_LISTED[node.op], ())
        return str(listed[port]) if port < len(listed) else ""
    if node.op in _UNSTATED:
        stated = node.attrs.get("out_type") or node.attrs.get("output_type")
        return str(stated or _UNSTATED[node.op])
    if port and node.op in _OF_INDICES:
        return str(node.attrs.get(_OF_INDICES[node.op], "int32"))
    stated = next((node.attrs[name] for name in _DTYPE_ATTRS if node.attrs.get(name)), "")
    return str(stated[port] if isinstance(stated, list | tuple) else stated)
