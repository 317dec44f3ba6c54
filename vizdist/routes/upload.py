"""POST /api/upload?name=FILE: a trace file from a viewer's disk, as the body.

The body is counted while it comes and written under a name of ours; what it holds is counted again
while it is inflated. The answer is the id of the trace, or why it is none.
"""

from collections.abc import Callable
from pathlib import PurePath
from typing import Annotated, Final

import anyio.to_thread
from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from starlette.requests import Request

from vizdist.store.library import Library
from vizdist.store.problems import TraceError
from vizdist.store.uploads import Uploads

BODY_BYTES: Final = 16 << 20
HEARD_BYTES: Final = 4 * BODY_BYTES

Name = Annotated[str, Query(max_length=500)]


class _TooLarge(Exception):
    """The body is longer than BODY_BYTES."""


def upload_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api")
    uploads = Uploads(library)

    @router.post("/upload")
    async def upload(request: Request, name: Name) -> JSONResponse:
        shown = PurePath(name).name or "the file"
        try:
            path = uploads.fresh_path(name)
        except TraceError as error:
            return JSONResponse({"error": str(error)}, 422)
        try:
            with path.open("wb") as file:
                await _receive(request, file.write)
        except _TooLarge:
            uploads.discard(path)
            return _too_large()
        except BaseException:  # a client that left, a disk that is full
            uploads.discard(path)
            raise
        try:
            trace_id = await anyio.to_thread.run_sync(uploads.accept, path)
        except TraceError as error:
            return JSONResponse({"error": str(error).replace(path.name, shown)}, 422)
        return JSONResponse({"trace": trace_id})

    return router


async def _receive(request: Request, write: Callable[[bytes], int]) -> None:
    """Raises _TooLarge for a body of more than BODY_BYTES, whatever length it announced.

    Of one that is only somewhat too long the rest is heard out, as a browser that is cut off in the
    middle of sending reads no answer.
    """
    num_bytes = 0
    async for part in request.stream():
        num_bytes += len(part)
        if num_bytes <= BODY_BYTES:
            write(part)
        elif num_bytes > HEARD_BYTES:
            break
    if num_bytes > BODY_BYTES:
        raise _TooLarge


def _too_large() -> JSONResponse:
    text = (
        f"an upload is at most {BODY_BYTES >> 20} MiB; compress the file, or open it from disk: "
        "vizdist serve FILE"
    )
    return JSONResponse({"error": text}, 413)
