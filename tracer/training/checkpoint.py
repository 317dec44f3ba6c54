"""The checkpoint folder of a run: which checkpoints are there, which of them are whole.

DIR/checkpoint.json                              {"step": 20, "kept": [10, 20]}
DIR/model.ckpt-20-00000-of-00002.safetensors     one a device that holds variables

The list is written last, so every checkpoint that it names is whole. As in TF the folder is shared
by all tasks that hold variables; the client that leads keeps the list.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from tracer.model.refusal import Refusal
from tracer.ops.tensor_file import SUFFIX, write_whole

LIST = "checkpoint.json"
MOST_KEPT = 5  #: as `tf.train.Saver`


class CheckpointError(Refusal):
    """A checkpoint folder that cannot be used; the text says what to do instead."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`every` so many steps, from the first values on, and after the last one; 0: only then."""

    folder: Path
    every: int = 0

    def are_due(self, step: int) -> bool:
        """One at step 0 too: a task may die before the next."""
        return bool(self.every) and step % self.every == 0

    @staticmethod
    def prefix(step: int) -> str:
        """As TF names its files."""
        return f"model.ckpt-{step}"

    def files(self, step: int) -> list[Path]:
        return sorted(self.folder.glob(f"{self.prefix(step)}-?????-of-?????{SUFFIX}"))

    def latest(self) -> int | None:
        """The step of the last whole checkpoint. Raises CheckpointError."""
        kept = self._kept()
        return kept[-1] if kept else None

    def commit(self, step: int, num_shards: int) -> None:
        """Its files are written: from here on a run goes on from it. Forgets the oldest ones.

        And those of this step that are of another number: of a run whose save broke off.
        """
        for path in self.files(step):
            if not path.stem.endswith(f"-of-{num_shards:05d}"):
                path.unlink(missing_ok=True)
        kept = [*(each for each in self._kept() if each != step), step]
        told = {"step": step, "kept": kept[-MOST_KEPT:]}
        write_whole(self.folder / LIST, [json.dumps(told).encode()])
        for old in kept[:-MOST_KEPT]:
            for path in self.files(old):
                path.unlink(missing_ok=True)

    def _kept(self) -> list[int]:
        path = self.folder / LIST
        try:
            kept = json.loads(path.read_bytes())["kept"]
            if not all(type(step) is int and step >= 0 for step in kept):
                raise ValueError
        except FileNotFoundError:
            return []
        except (ValueError, LookupError, TypeError):
            raise CheckpointError(
                f'{path} is no list of checkpoints, {{"step": 20, "kept": [10, 20]}}; mend it, or '
                "name another folder"
            ) from None
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read: {error.strerror}") from None
        return list(kept)
