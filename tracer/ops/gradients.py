"""The gradient of each op: how much a loss moves with an input, from how much with the output.

A rule adds nodes that compute the gradient of input `i`, and is asked only for inputs whose
gradient somebody wants. After TF's `math_grad.py`, `array_grad.py` and `nn_grad.py`; what TF keeps
as IndexedSlices is dense here. `aten.*` ops have no rules: torch differentiates what it
captures.
"""

from collections.abc import Callable, Mapping

from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.op_gradient import OpGradient, Value

Rule = Callable[[OpGradient, int], Value]
Operands = Callable[[Value, Value, Value, Value], Value]  #: a, b, y, dy


def _unary(rule: Callable[[Value, Value, Value], Value]) -> Rule:
    """Of an op with one input: from x, y and the gradient of y."""
    return lambda g, _i: rule(g.x(0), g.y(), g.dy)


def _binary(rule: Operands, other: Operands | None = None) -> Rule:
    """Of an op on two inputs that broadcast; `other` is the rule of the second input."""
    rules = rule, other or rule
    return lambda g, i: g.fit(rules[i](g.x(0), g.x(1), g.y(), g.dy), i)


def _same(g: OpGradient, _i: int) -> Value:
    return g.dy


def _product(g: OpGradient, i: int) -> Value:
    return g.fit(g.dy * g.x(1 - i), i)


def _chosen(g: OpGradient, i: int) -> Value:
    """Of Select: to the operand that was taken."""
    zeros = g.dy.op("ZerosLike")
    operands = (g.dy, zeros) if i == 1 else (zeros, g.dy)
    return g.fit(g.x(0).chooses(*operands), i)


def _extreme(compare: str) -> Rule:
    """Of Maximum and Minimum: to the first operand where both are equal, as in TF."""

    def rule(g: OpGradient, i: int) -> Value:
        zeros = g.dy.op("ZerosLike")
        operands = (g.dy, zeros) if i == 0 else (zeros, g.dy)
        return g.fit(g.x(0).op(compare, g.x(1)).chooses(*operands), i)

    return rule


def _exponent(a: Value, _b: Value, y: Value, dy: Value) -> Value:
    """A base that is not positive has no logarithm; it counts as one of 1."""
    safe = a.op("Greater", 0.0).chooses(a, a.op("OnesLike"))
    return dy * y * safe.op("Log")


def _elu(_x: Value, y: Value, dy: Value) -> Value:
    return y.op("Less", 0.0).chooses(dy * (y + 1.0), dy)


def _last_sum(x: Value) -> Value:
    return x.op("Sum", [-1], keep_dims=True)


def _product_of_matrices(op: str, a_turned: str, b_turned: str) -> Rule:
    """dA = dY Bᵀ and dB = Aᵀ dY, with the operands turned as the op has them."""

    def rule(g: OpGradient, i: int) -> Value:
        a, b, dy = g.x(0), g.x(1), g.dy
        ta, tb = bool(g.attr(a_turned)), bool(g.attr(b_turned))
        if i == 0:
            left, right, turns = (b, dy, (tb, True)) if ta else (dy, b, (False, not tb))
        else:
            left, right, turns = (dy, a, (True, ta)) if tb else (a, dy, (not ta, False))
        product = left.op(op, right, **dict(zip((a_turned, b_turned), turns, strict=True)))
        return _fit_batch(g, product, i)

    return rule


def _fit_batch(g: OpGradient, product: Value, i: int) -> Value:
    """Dims before the matrix may have been broadcast."""
    x, y = g.spec_of(g.node.inputs[i]), g.spec_of(g.y().source)
    if g.node.op == "MatMul" or (x and y and x.shape[:-2] == y.shape[:-2]):
        return product
    shape = g.shape(i)
    axes = shape.op("BroadcastGradientArgs", product.op("Shape"))
    return product.op("Sum", axes).op("Reshape", shape)


def _cast(g: OpGradient, _i: int) -> Value:
    spec = g.spec_of(g.node.inputs[0])
    dtype = g.attr("SrcT") or (spec.dtype if spec else "")
    if not dtype:
        raise g.refuse("the dtype it casts from is not known; say it as the attribute SrcT")
    return g.dy.op("Cast", DstT=dtype)


def _kept_shape(g: OpGradient) -> Value:
    """The shape of a reduction's output with its dims kept, as 1."""
    spec, axis = g.spec_of(g.node.inputs[0]), g.constant(1)
    if spec and axis:
        rank = len(spec.shape)
        dims = {dim % rank for dim in literal_to_tensor(axis).reshape(-1).tolist()}
        return g.value([1 if dim in dims else n for dim, n in enumerate(spec.shape)])
    count = g.x(0).op("Rank")
    axes = (g.x(1) + count).op("FloorMod", count)
    every = g.value(0).op("Range", count, 1)
    ones = axes.op("Shape").op("Fill", 1)
    return every.op("DynamicStitch", axes, g.x(0).op("Shape"), ones)


def _sum(g: OpGradient, _i: int) -> Value:
    return g.dy.op("Reshape", _kept_shape(g)).op("BroadcastTo", g.shape(0))


def _mean(g: OpGradient, i: int) -> Value:
    averaged = g.x(0).op("Size").op("FloorDiv", g.y().op("Size").op("Maximum", 1))
    return _sum(g, i) / averaged.op("Cast", SrcT="int32", DstT=g.dtype)


def _largest(g: OpGradient, _i: int) -> Value:
    """Of Max and Min: in equal parts to all elements that are it."""
    kept = _kept_shape(g)
    is_it = g.x(0).op("Equal", g.y().op("Reshape", kept))
    share = g.dy.op("Reshape", kept).op("BroadcastTo", g.shape(0))
    taken = is_it.chooses(share, share.op("ZerosLike"))
    ones = is_it.chooses(share.op("OnesLike"), share.op("ZerosLike"))
    return taken / ones.op("Sum", g.x(1)).op("Reshape", kept)


def _factors(g: OpGradient, _i: int) -> Value:
    """Of Prod: the product of all other elements, axis by axis, also where elements are 0."""
    axis = g.constant(1)
    if axis is None:
        raise g.refuse("it has one along constant axes only")
    gradient, factors = g.dy.op("Reshape", _kept_shape(g)), g.x(0)
    steps: list[tuple[Value, int]] = []
    for dim in literal_to_tensor(axis).reshape(-1).tolist():
        steps.append((factors, dim))
        factors = factors.op("Prod", [dim], keep_dims=True)
    for factors, dim in reversed(steps):
        before = factors.op("Cumprod", dim, exclusive=True)
        after = factors.op("Cumprod", dim, exclusive=True, reverse=True)
        gradient = gradient * (before * after)
    return gradient


def _cumulated(g: OpGradient, _i: int) -> Value:
    """Of Cumsum: an element counts in every sum that comes after it."""
    exclusive, is_reverse = bool(g.attr("exclusive")), bool(g.attr("reverse"))
    return g.dy.op("Cumsum", g.x(1), exclusive=exclusive, reverse=not is_reverse)


def _reshaped(g: OpGradient, _i: int) -> Value:
    return g.dy.op("Reshape", g.shape(0))


def _transposed(g: OpGradient, _i: int) -> Value:
    return g.dy.op("Transpose", g.x(1).op("InvertPermutation"))


def _tiled(g: OpGradient, _i: int) -> Value:
    """Copies stand side by side: [copies, size] for each dim, summed over the copies."""
    split = g.x(1).op("Pack", g.shape(0), axis=1).op("Reshape", [-1])
    copies = g.value(0).op("Range", split.op("Size"), 2)
    return g.dy.op("Reshape", split).op("Sum", copies).op("Reshape", g.shape(0))


def _filled(g: OpGradient, _i: int) -> Value:
    return g.dy.op("Sum", g.value(0).op("Range", g.dy.op("Rank"), 1))


def _unpacked(g: OpGradient, i: int) -> Value:
    parts = g.dy.op("Unpack", num=len(g.node.inputs), axis=g.attr("axis", 0))
    return parts.port(i)


def _packed(g: OpGradient, _i: int) -> Value:
    first, *others = (g.grad(port) for port in range(g.node.attrs["num"]))
    return first.op("Pack", *others, axis=g.attr("axis", 0))


def _joined(g: OpGradient, _i: int) -> Value:
    """Of Split."""
    first, *others = (g.grad(port) for port in range(g.node.attrs["num_split"]))
    return first.op("ConcatV2", *others, g.x(0))


def _cut_out(g: OpGradient, i: int) -> Value:
    """Of ConcatV2: the part of the gradient where input i went."""
    shapes = [g.shape(each) for each in range(len(g.node.inputs) - 1)]
    offsets = g.x(len(shapes)).op("ConcatOffset", *shapes, N=len(shapes))
    return g.dy.op("Slice", offsets.port(i), shapes[i])


def _gathered(g: OpGradient, _i: int) -> Value:
    axis = g.constant(2)
    if axis is None or int(literal_to_tensor(axis)) != 0:
        raise g.refuse("it has one along a constant axis 0 only")
    return _scattered(g, g.shape(0).op("StridedSlice", [0], [1], [1], shrink_axis_mask=1))


def _gathered_from_variable(g: OpGradient, _i: int) -> Value:
    handle = g.variable()
    return _scattered(g, g.value(int(handle.attrs["shape"][0])))


def _scattered(g: OpGradient, rows: Value) -> Value:
    """Rows that were taken often get the sum of what comes back."""
    return g.dy.op("UnsortedSegmentSum", g.x(1), rows)


def _padded(g: OpGradient, _i: int) -> Value:
    """Of Slice: zeros around."""
    after = (g.shape(0) - g.x(1)) - g.dy.op("Shape")
    return g.dy.op("Pad", g.x(1).op("Pack", after, axis=1))


def _unpadded(g: OpGradient, _i: int) -> Value:
    before = g.x(1).op(
        "StridedSlice", [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
    )
    return g.dy.op("Slice", before, g.shape(0))


def _strided(g: OpGradient, _i: int) -> Value:
    """The same slice of the elements' numbers says where each came from."""
    shape, size = g.shape(0), g.x(0).op("Size")
    numbers = g.value(0).op("Range", size, 1).op("Reshape", shape)
    masks = {name: value for name, value in g.node.attrs.items() if name.endswith("_mask")}
    taken = numbers.op("StridedSlice", *(g.x(port) for port in (1, 2, 3)), **masks)
    return g.dy.op("UnsortedSegmentSum", taken, size).op("Reshape", shape)


def _unstitched(g: OpGradient, i: int) -> Value:
    """Of DynamicStitch: each piece of data gets back the rows where its indices say."""
    half = len(g.node.inputs) // 2
    if i < half:
        raise g.refuse("indices are no numbers to differentiate by")
    return g.dy.op("GatherV2", g.x(i - half), 0)


def _stitched(g: OpGradient, _i: int) -> Value:
    """Of DynamicPartition: what was parted is put where it came from."""
    num, parts = g.node.attrs["num_partitions"], g.x(1)
    numbers = g.value(0).op("Range", parts.op("Size"), 1).op("Reshape", parts.op("Shape"))
    origins = numbers.op("DynamicPartition", parts, num_partitions=num)
    first, *others = (origins.port(port) for port in range(num))
    parted = (g.grad(port) for port in range(num))
    stitched = first.op("DynamicStitch", *others, *parted, T=g.dtype)
    return stitched.op("Reshape", g.shape(0))


def _cross_entropy(g: OpGradient, i: int) -> Value:
    """Output 1 is the gradient by the logits already; each row counts as much as its loss does."""
    rows = g.dy.op("ExpandDims", -1)
    return rows * (g.y(1) if i == 0 else -g.x(0).op("LogSoftmax"))


#: one row an op; x, y, dy are input, output, gradient of the output
GRADIENTS: Mapping[str, Rule] = {
    "Abs": _unary(lambda x, _y, dy: dy * x.op("Sign")),
    "Add": _binary(lambda _a, _b, _y, dy: dy),
    "AddN": _same,
    "AddV2": _binary(lambda _a, _b, _y, dy: dy),
    "BatchMatMulV2": _product_of_matrices("BatchMatMulV2", "adj_x", "adj_y"),
    "BiasAdd": lambda g, i: g.dy.op("BiasAddGrad") if i else g.dy,
    "BiasAddGrad": lambda g, _i: g.dy.op("BroadcastTo", g.shape(0)),
    "BroadcastTo": lambda g, _i: g.fit(g.dy, 0),
    "Cast": _cast,
    "ConcatV2": _cut_out,
    "Cos": _unary(lambda x, _y, dy: -(dy * x.op("Sin"))),
    "Cumsum": _cumulated,
    "Div": _binary(lambda _a, b, _y, dy: dy / b, lambda _a, b, y, dy: -(dy * y / b)),
    "DynamicPartition": _stitched,
    "DynamicStitch": _unstitched,
    "Elu": _unary(_elu),
    "Exp": _unary(lambda _x, y, dy: dy * y),
    "ExpandDims": _reshaped,
    "Fill": _filled,
    "FloorMod": _binary(
        lambda _a, _b, _y, dy: dy, lambda a, b, _y, dy: -(dy * a.op("FloorDiv", b))
    ),
    "GatherV2": _gathered,
    "Identity": _same,
    "L2Loss": _unary(lambda x, _y, dy: dy * x),
    "Log": _unary(lambda x, _y, dy: dy / x),
    "LogSoftmax": _unary(lambda _x, y, dy: dy - y.op("Exp") * _last_sum(dy)),
    "MatMul": _product_of_matrices("MatMul", "transpose_a", "transpose_b"),
    "Max": _largest,
    "Maximum": _extreme("GreaterEqual"),
    "Mean": _mean,
    "Min": _largest,
    "Minimum": _extreme("LessEqual"),
    "Mul": _product,
    "Neg": _unary(lambda _x, _y, dy: -dy),
    "Pack": _unpacked,
    "Pad": _unpadded,
    "ParallelDynamicStitch": _unstitched,
    "PlaceholderWithDefault": _same,
    "Pow": _binary(lambda a, b, _y, dy: dy * b * a.op("Pow", b - 1.0), _exponent),
    "Prod": _factors,
    "ReadVariableOp": _same,
    "RealDiv": _binary(lambda _a, b, _y, dy: dy / b, lambda _a, b, y, dy: -(dy * y / b)),
    "Reciprocal": _unary(lambda _x, y, dy: -(dy * y * y)),
    "Relu": _unary(lambda _x, y, dy: dy.op("ReluGrad", y)),
    "ReluGrad": lambda g, i: g.dy.op("ReluGrad", g.x(1)) if i == 0 else g.dy.op("ZerosLike"),
    "Reshape": _reshaped,
    "ResourceGather": _gathered_from_variable,
    "Rsqrt": _unary(lambda _x, y, dy: dy * y * y * y * -0.5),
    "Select": _chosen,
    "SelectV2": _chosen,
    "Sigmoid": _unary(lambda _x, y, dy: y.op("SigmoidGrad", dy)),
    "Sin": _unary(lambda x, _y, dy: dy * x.op("Cos")),
    "Slice": _padded,
    "Softmax": _unary(lambda _x, y, dy: (dy - _last_sum(dy * y)) * y),
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Softplus": _unary(lambda x, _y, dy: dy * x.op("Sigmoid")),
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Split": _joined,
    "Sqrt": _unary(lambda _x, y, dy: dy * 0.5 / y),
    "Square": _unary(lambda x, _y, dy: dy * x * 2.0),
    "Squeeze": _reshaped,
    "StridedSlice": _strided,
    "Sub": lambda g, i: g.fit(-g.dy if i else g.dy, i),
    "Sum": _sum,
    "Tanh": _unary(lambda _x, y, dy: y.op("TanhGrad", dy)),
    "Tile": _tiled,
    "Transpose": _transposed,
    "Unpack": _packed,
}

#: what gives steps, numbers of places or yes and no: a loss does not move with its inputs
WITHOUT_GRADIENT = frozenset(
    {
        *("All", "Any", "ArgMax", "ArgMin", "Const", "Equal", "Floor", "FloorDiv", "Greater"),
        *("GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "LoopCond"),
        *("NotEqual", "OnesLike", "Placeholder", "Range", "Rank", "Shape", "Sign", "Size"),
        *("StopGradient", "VarIsInitializedOp", "IsVariableInitialized", "ZerosLike"),
    }
)
