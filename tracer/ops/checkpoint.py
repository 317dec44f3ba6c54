"""Saving and restoring tensors (TF `save_restore_v2_ops.cc`, `sharded_filename`).

    prefix ─► ShardedFilename ─► SaveV2 ◄─ names, tensors     one file a device that holds variables
    prefix ─► RestoreV2 ◄─ names                              looks into all files of the prefix

A prefix comes from a graph, perhaps off the wire: whatever it says, files lie in the task's
checkpoint folder.
"""

import errno
from collections.abc import Callable
from glob import escape
from pathlib import Path
from typing import Any, NoReturn

import torch

from tracer.model.graph import Literal, Node, TensorSpec
from tracer.model.literal import literal_of, strings_of
from tracer.ops.kernel import Kernel, OpContext, OpDef, OpError, direct
from tracer.ops.shapes import Specs
from tracer.ops.tensor_file import SUFFIX, TensorFile, TornFile, write_tensors

_CODES = {
    errno.ENOENT: "NOT_FOUND",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EROFS: "PERMISSION_DENIED",
    errno.ENOSPC: "RESOURCE_EXHAUSTED",
    errno.EDQUOT: "RESOURCE_EXHAUSTED",
}


def _sharded_filename(basename: Literal, shard: torch.Tensor, num_shards: torch.Tensor) -> Literal:
    (name,) = strings_of(basename)
    return literal_of("string", f"{name}-{int(shard):05d}-of-{int(num_shards):05d}")


def _string(_node: Node, _inputs: list[Any]) -> Specs:
    return (TensorSpec("string", ()),)


def _bind_save(_node: Node, context: OpContext) -> Kernel:
    path_of = _paths(context)

    def save(prefix: Literal, names: Literal, slices: Literal, *tensors: torch.Tensor) -> None:
        _check_whole(slices)
        path = path_of(prefix, SUFFIX)
        named = dict(zip(strings_of(names), tensors, strict=True))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(path, named)
        except OSError as error:
            _fail(error, path)

    return save


def _bind_restore(node: Node, context: OpContext) -> Kernel:
    path_of, device = _paths(context), context.torch_device
    wanted = _specs(node, [])

    def restore(prefix: Literal, names: Literal, slices: Literal) -> Any:
        _check_whole(slices)
        files = _files_of(path_of(prefix, ""))
        try:
            found = [
                _tensor(files, name, spec).to(device)
                for name, spec in zip(strings_of(names), wanted, strict=True)
            ]
        except TornFile as error:
            raise OpError("DATA_LOSS", str(error)) from None
        return found[0] if len(found) == 1 else tuple(found)

    return restore


def _specs(node: Node, _inputs: list[Any]) -> Specs:
    pairs = zip(node.attrs["dtypes"], node.attrs["shapes"], strict=True)
    return tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in pairs)


def _files_of(prefix: Path) -> list[TensorFile]:
    """All files of a checkpoint. Raises OpError where one is missing or torn."""
    whole = prefix.with_name(prefix.name + SUFFIX)
    shards = sorted(prefix.parent.glob(f"{escape(prefix.name)}-?????-of-?????{SUFFIX}"))
    paths = [whole] if whole.exists() else shards
    if not paths:
        raise OpError("NOT_FOUND", f"no checkpoint file {prefix}* is there")
    if paths is shards and len(shards) != (told := int(shards[0].stem[-5:])):
        raise OpError("DATA_LOSS", f"{len(shards)} of the {told} files of {prefix} are there")
    try:
        return [TensorFile(path) for path in paths]
    except TornFile as error:
        raise OpError("DATA_LOSS", str(error)) from None
    except OSError as error:
        _fail(error, prefix)


def _tensor(files: list[TensorFile], name: str, wanted: TensorSpec) -> torch.Tensor:
    file = next((file for file in files if name in file), None)
    if file is None:
        there = ", ".join(sorted(name for file in files for name in file.names))
        raise OpError("NOT_FOUND", f"Key {name} not found in checkpoint; it holds {there}")
    if (found := file.spec(name)) != wanted:
        raise OpError(
            "INVALID_ARGUMENT",
            f"{name} is {found.dtype} {list(found.shape)} in the checkpoint, and the graph has it "
            f"as {wanted.dtype} {list(wanted.shape)}: it is of another model",
        )
    return file.tensor(name)


def _paths(context: OpContext) -> Callable[[Literal, str], Path]:
    """A prefix and a suffix → the path, within the task's checkpoint folder."""
    folder = context.resources.checkpoints

    def path_of(prefix: Literal, suffix: str) -> Path:
        (text,) = strings_of(prefix)
        if folder is None:
            raise OpError(
                "FAILED_PRECONDITION",
                f"{text!r} is to be saved or restored, and this task has no checkpoint folder: "
                "run with --checkpoint DIR",
            )
        root = folder.resolve()
        path = (root / (text + suffix)).resolve()
        if not text or path == root or not path.is_relative_to(root):
            raise OpError(
                "INVALID_ARGUMENT",
                f"{text!r} is no name within the checkpoint folder {folder}; nothing else is "
                "written or read. Use a relative name such as model.ckpt-10",
            )
        return path

    return path_of


def _check_whole(slices: Literal) -> None:
    if part := next(filter(None, strings_of(slices)), ""):
        raise OpError(
            "UNIMPLEMENTED", f"a slice ({part!r}) is asked for; only whole tensors are saved"
        )


def _fail(error: OSError, path: Path) -> NoReturn:
    code = _CODES.get(error.errno or 0, "INTERNAL")
    raise OpError(code, f"{error.filename or path}: {error.strerror or error}") from error


OPS: tuple[OpDef, ...] = (
    direct(
        "ShardedFilename",
        _sharded_filename,
        infer=_string,
        is_view=True,
        host_inputs=(0, 1, 2),
        host_outputs=(0,),
        device_types=("CPU",),
        says="`model.ckpt-10` → `model.ckpt-10-00000-of-00002`.",
    ),
    OpDef(
        "SaveV2",
        _bind_save,
        num_outputs=0,
        stateful=True,
        device_types=("CPU",),
        says="Writes tensors under their names into one file of the checkpoint folder.",
    ),
    OpDef(
        "RestoreV2",
        _bind_restore,
        num_outputs=lambda node: len(node.attrs["dtypes"]),
        infer=_specs,
        stateful=True,
        device_types=("CPU",),
        says="Reads tensors by name from the files of a checkpoint.",
    ),
)
