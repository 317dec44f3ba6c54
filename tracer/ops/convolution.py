"""Convolution and pooling of images (TF `conv_ops.cc`, `pooling_ops_common.cc`).

TF's images lie NHWC unless `data_format` says NCHW, its filters HWIO; torch computes NCHW and OIHW.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from tracer.model.graph import Node
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError

Tensor = torch.Tensor
Pair = tuple[int, int]  #: (height, width)

#: (images NCHW, window, strides, padding before and after of both dims) → images NCHW
Pool = Callable[[Tensor, Pair, Pair, list[int]], Tensor]


def _spatial(node: Node, attribute: str, default: int = 1) -> Pair:
    """The two numbers for height and width among the four that an attribute gives."""
    four = node.attrs.get(attribute) or [default] * 4
    first = 2 if _is_channels_first(node) else 1
    if len(four) != 4 or any(four[dim] != 1 for dim in range(4) if dim not in (first, first + 1)):
        raise OpError(
            "INVALID_ARGUMENT",
            f"{attribute} of {node.op} is {four}; it must hold four numbers, 1 for batch and depth",
        )
    return int(four[first]), int(four[first + 1])


def _is_channels_first(node: Node) -> bool:
    return node.attrs.get("data_format") == "NCHW"


def _padding(node: Node, sizes: Pair, windows: Pair, strides: Pair) -> list[int]:
    """As torch's `pad` takes it: width before and after, height before and after.

    SAME gives an output for each stride that begins in the image; an odd zero goes behind.
    """
    match node.attrs.get("padding"):
        case "VALID":
            return [0, 0, 0, 0]
        case "SAME":
            pads: list[int] = []
            for size, window, stride in zip(sizes, windows, strides, strict=True):
                total = max((-(-size // stride) - 1) * stride + window - size, 0)
                pads = [total // 2, total - total // 2, *pads]
            return pads
    raise OpError(
        "INVALID_ARGUMENT",
        f"padding of {node.op} is {node.attrs.get('padding')!r}; allowed are SAME and VALID",
    )


def _as_nchw(node: Node, images: Tensor) -> Tensor:
    if images.dim() != 4:
        raise OpError(
            "INVALID_ARGUMENT", f"input must be 4-dimensional, it has shape {list(images.shape)}"
        )
    return images if _is_channels_first(node) else images.permute(0, 3, 1, 2)


def _from_nchw(node: Node, images: Tensor) -> Tensor:
    return images if _is_channels_first(node) else images.permute(0, 2, 3, 1).contiguous()


def _size(images: Tensor) -> Pair:
    return images.shape[2], images.shape[3]


def _bind_conv2d(node: Node, _context: OpContext) -> Kernel:
    strides, dilations = _spatial(node, "strides"), _spatial(node, "dilations")

    def conv2d(images: Tensor, filters: Tensor) -> Tensor:
        given = _as_nchw(node, images)
        height, width, depth, _ = filters.shape
        if given.shape[1] % depth:
            raise OpError(
                "INVALID_ARGUMENT",
                "input depth must be evenly divisible by filter depth: "
                f"{given.shape[1]} vs {depth}",
            )
        windows = (height - 1) * dilations[0] + 1, (width - 1) * dilations[1] + 1
        padded = functional.pad(given, _padding(node, _size(given), windows, strides))
        made = functional.conv2d(
            padded,
            filters.permute(3, 2, 0, 1),
            stride=strides,
            dilation=dilations,
            groups=given.shape[1] // depth,
        )
        return _from_nchw(node, made)

    return conv2d


def _max_pool(images: Tensor, window: Pair, strides: Pair, pads: list[int]) -> Tensor:
    padded = functional.pad(images, pads, value=float("-inf")) if any(pads) else images
    return functional.max_pool2d(padded, window, strides)


def _average_pool(images: Tensor, window: Pair, strides: Pair, pads: list[int]) -> Tensor:
    """Over what lies in the image: zeros of the padding do not count."""
    if not any(pads):
        return functional.avg_pool2d(images, window, strides)
    sums = functional.avg_pool2d(functional.pad(images, pads), window, strides)
    ones = torch.ones_like(images[:1, :1])
    return sums / functional.avg_pool2d(functional.pad(ones, pads), window, strides)


def _bind_pool(pool: Pool, node: Node, _context: OpContext) -> Kernel:
    window, strides = _spatial(node, "ksize"), _spatial(node, "strides")

    def pooled(images: Tensor) -> Tensor:
        given = _as_nchw(node, images)
        pads = _padding(node, _size(given), window, strides)
        return _from_nchw(node, pool(given, window, strides, pads))

    return pooled


OPS: tuple[OpDef, ...] = (
    OpDef("Conv2D", _bind_conv2d, alike=slice(None)),
    OpDef("MaxPool", partial(_bind_pool, _max_pool)),
    OpDef("AvgPool", partial(_bind_pool, _average_pool)),
)
