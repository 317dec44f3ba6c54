"""POST /api/upload?name=FILE&lang=en: a trace file from a viewer's disk, as the body.

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

from vizdist.analysis.report import refusal_text
from vizdist.i18n import as_lang
from vizdist.store.library import Library
from vizdist.store.problems import TraceError, refusal
from vizdist.store.uploads import Uploads

BODY_BYTES: Final = 16 << 20
HEARD_BYTES: Final = 4 * BODY_BYTES

Name = Annotated[str, Query(max_length=500)]
Language = Annotated[str, Query(max_length=8)]


class _TooLarge(Exception):
    """The body is longer than BODY_BYTES."""


def upload_routes(library: Library) -> APIRouter:
    router = APIRouter(prefix="/api")
    uploads = Uploads(library)

    @router.post("/upload")
    async def upload(request: Request, name: Name, lang: Language = "en") -> JSONResponse:
        shown = PurePath(name).name or "the file"

        def refused(error: TraceError, status: int = 422) -> JSONResponse:
            text = refusal_text(error, as_lang(lang))
            return JSONResponse({"error": text.replace(path.name, shown) if path else text}, status)

        path = None
        try:
            path = uploads.fresh_path(shown)
        except TraceError as error:
            return refused(error)
        try:
            with path.open("wb") as file:
                await _receive(request, file.write)
        except _TooLarge:
            uploads.discard(path)
            return refused(refusal("body", shown, count=BODY_BYTES >> 20), 413)
        except BaseException:  # a client that left, a disk that is full
            uploads.discard(path)
            raise
        try:
            trace_id = await anyio.to_thread.run_sync(uploads.accept, path)
        except TraceError as error:
            return refused(error)
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
