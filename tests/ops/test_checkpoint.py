"""Save and restore as ops: within one folder, by name, whole or not at all."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.ops.graph_runner import PlainResources, context
from tracer.model.graph import Literal, Node, TensorSpec
from tracer.model.literal import literal_of, strings_of
from tracer.ops.kernel import OpError
from tracer.ops.registry import lookup

W, B = torch.tensor([[1.0, 2.0]]), torch.tensor([3.0])


def text(*values: str) -> Literal:
    return literal_of("string", list(values))


def run(op: str, folder: Path | None, *inputs: Any, **attrs: Any) -> Any:
    return lookup(op).bind(Node("n", op, attrs=attrs), context(PlainResources(folder)))(*inputs)


def save(folder: Path | None, prefix: str, **tensors: torch.Tensor) -> None:
    blanks = text(*[""] * len(tensors))
    run("SaveV2", folder, literal_of("string", prefix), text(*tensors), blanks, *tensors.values())


def restore(folder: Path | None, prefix: str, **specs: TensorSpec) -> Any:
    attrs = {
        "dtypes": [spec.dtype for spec in specs.values()],
        "shapes": [list(spec.shape) for spec in specs.values()],
    }
    blanks = text(*[""] * len(specs))
    return run("RestoreV2", folder, literal_of("string", prefix), text(*specs), blanks, **attrs)


W_SPEC, B_SPEC = TensorSpec("float32", (1, 2)), TensorSpec("float32", (1,))


def test_what_was_saved_comes_back_by_name_in_the_order_asked_for(tmp_path: Path) -> None:
    save(tmp_path, "ckpt", w=W, b=B)
    b, w = restore(tmp_path, "ckpt", b=B_SPEC, w=W_SPEC)
    assert torch.equal(w, W)
    assert torch.equal(b, B)
    assert torch.equal(restore(tmp_path, "ckpt", b=B_SPEC), B)


def test_a_shard_is_named_as_in_tensorflow() -> None:
    (name,) = strings_of(
        run("ShardedFilename", None, text("model.ckpt-10"), torch.tensor(1), torch.tensor(2))
    )
    assert name == "model.ckpt-10-00001-of-00002"


def test_a_tensor_is_found_in_whichever_shard_it_lies(tmp_path: Path) -> None:
    """So a checkpoint of two parameter servers can be restored by one, and the reverse."""
    save(tmp_path, "ckpt-00000-of-00002", w=W)
    save(tmp_path, "ckpt-00001-of-00002", b=B)
    w, b = restore(tmp_path, "ckpt", w=W_SPEC, b=B_SPEC)
    assert torch.equal(w, W)
    assert torch.equal(b, B)


def failure(call: Any, *args: Any, **kwargs: Any) -> OpError:
    with pytest.raises(OpError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_missing_shard_is_told_and_not_restored_around(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-00000-of-00002", w=W)
    error = failure(restore, tmp_path, "ckpt", w=W_SPEC)
    assert error.code == "DATA_LOSS"
    assert "1 of the 2 files" in error.message


def test_a_torn_shard_is_refused(tmp_path: Path) -> None:
    save(tmp_path, "ckpt", w=W)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    error = failure(restore, tmp_path, "ckpt", w=W_SPEC)
    assert error.code == "DATA_LOSS"
    assert str(path) in error.message


@pytest.mark.parametrize(
    ("prefix", "specs", "code", "says"),
    [
        ("ckpt", {"v": W_SPEC}, "NOT_FOUND", "Key v not found in checkpoint; it holds b, w"),
        ("other", {"w": W_SPEC}, "NOT_FOUND", "no checkpoint file"),
        ("ck*", {"w": W_SPEC}, "NOT_FOUND", "no checkpoint file"),
        ("ckpt", {"w": B_SPEC}, "INVALID_ARGUMENT", r"float32 \[1, 2\] in the checkpoint"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    tmp_path: Path, prefix: str, specs: dict[str, TensorSpec], code: str, says: str
) -> None:
    save(tmp_path, "ckpt", w=W, b=B)
    with pytest.raises(OpError, match=says) as caught:
        restore(tmp_path, prefix, **specs)
    assert caught.value.code == code


@pytest.mark.parametrize("prefix", ["../out", "/tmp/out", "a/../../out", "", "link/out"])
def test_nothing_is_written_or_read_outside_the_folder(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    save(tmp_path, "out", w=W)
    before = sorted(path.name for path in tmp_path.iterdir())
    for error in (
        failure(save, folder, prefix, w=W),
        failure(restore, folder, prefix, w=W_SPEC),
    ):
        assert error.code == "INVALID_ARGUMENT"
        assert "is no name within the checkpoint folder" in error.message
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_task_without_a_checkpoint_folder_says_how_to_have_one() -> None:
    error = failure(save, None, "ckpt", w=W)
    assert error.code == "FAILED_PRECONDITION"
    assert "--checkpoint DIR" in error.message


def test_a_slice_is_refused_instead_of_taken_for_the_whole(tmp_path: Path) -> None:
    with pytest.raises(OpError, match="only whole tensors"):
        run("SaveV2", tmp_path, text("ckpt"), text("w"), text("4 1 0,2"), W)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "ckpt.safetensors").mkdir()
    error = failure(save, tmp_path, "ckpt", w=W)
    assert "ckpt.safetensors" in error.message
