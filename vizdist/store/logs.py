"""What the process of a task printed, as its run kept it."""

from pathlib import Path

from tracer.model.trace_folder import log_path

TAIL_BYTES = 16_384  #: of a log that may be as long as a run


def last_lines(folder: Path, task: str, most: int) -> tuple[str, ...]:
    """The last lines that are not empty; none where the run kept no log of the task."""
    path = log_path(folder, task)
    try:
        with path.open("rb") as file:
            start = max(0, path.stat().st_size - TAIL_BYTES)
            file.seek(start)
            text = file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ()
    lines = text.splitlines()[1 if start else 0 :]  # the first may have lost its beginning
    return tuple([line.rstrip() for line in lines if line.strip()][-most:])
