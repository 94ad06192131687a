"""The addresses of the server and what answers there."""

from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field, StrictInt
from starlette.exceptions import HTTPException

from interlude.app import events, grid
from interlude.app.archive import zipped
from interlude.app.fits import MODEL, REPORT
from interlude.app.images import SIZES
from interlude.app.labels import Conflict, Missing
from interlude.app.project import Project
from interlude.app.propose import RANDOM, Proposal
from interlude.app.security import Guard
from interlude.errors import RunError, UserError

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
PROPOSED = 200  # images that can be asked for at once
MARKED = 10_000  # images that can be marked at once


class Names(BaseModel):
    """Classes to add."""

    names: list[str] = Field(max_length=500)


class Name(BaseModel):
    """Another name for a class."""

    name: str


class Mark(BaseModel):
    """Images, and what they are."""

    ids: list[StrictInt] = Field(max_length=MARKED)
    value: StrictInt | Literal["skip", "strange"] | None
    session: str | None = None  # of the server that gave the images these numbers


class Train(BaseModel):
    """How long a fit may take, and whether it goes on in spite of the doctor."""

    budget: str = Field("3m", max_length=20)
    force: bool = False


def build(project: Project, *, token: str, host: str, port: int) -> Guard:
    """The server of a project, behind its guard."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for kind, code in ((Missing, 404), (Conflict, 409), (UserError, 400), (RunError, 500)):
        app.add_exception_handler(kind, _refusal(code))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for routes in (state_routes, label_routes, look_routes, fit_routes, export_routes):
        app.include_router(routes(project))
    app.include_router(page_routes())
    return Guard(app, token=token, host=host, port=port)


def page_routes() -> APIRouter:
    """The page itself, from the package; only files that are in it when the server starts."""
    router = APIRouter()
    folder = files("interlude.app") / "page"
    contents = {
        file.name: (file.read_bytes(), KINDS[suffix])
        for file in folder.iterdir()
        if (suffix := f".{file.name.rpartition('.')[2]}") in KINDS
    }

    @router.get("/")
    def index() -> Response:
        return static("index.html")

    @router.get("/{name}")
    def static(name: str) -> Response:
        if name not in contents:
            raise Missing("there is nothing here")
        content, kind = contents[name]
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    return router


def state_routes(project: Project) -> APIRouter:
    """What the page shows at all times."""
    router = APIRouter()

    @router.get("/api/state")
    def state() -> dict[str, Any]:
        return project.state()

    @router.get("/api/events")
    async def follow(request: Request) -> StreamingResponse:
        return StreamingResponse(
            events.stream(project, request.is_disconnected), media_type="text/event-stream"
        )

    return router


def label_routes(project: Project) -> APIRouter:
    """Classes, proposals, labels, undo."""
    router, labels = APIRouter(), project.labels

    @router.post("/api/classes")
    def add(body: Names) -> dict[str, Any]:
        project.writing(labels.add_classes, body.names)
        return project.state()

    @router.post("/api/classes/{number}")
    def rename(number: int, body: Name) -> dict[str, Any]:
        project.writing(labels.rename_class, number, body.name)
        return project.state()

    @router.delete("/api/classes/{number}")
    def remove(number: int) -> dict[str, Any]:
        project.writing(labels.remove_class, number)
        return project.state()

    @router.get("/api/next")
    def propose(count: Annotated[int, Query(ge=1, le=PROPOSED)] = 24, skip: str = "") -> dict[str, Any]:
        without = {int(word) for word in skip.split(",") if word.isdecimal()}
        told = [_proposed(project, proposal) for proposal in project.proposer.next(count, without)]
        return {"session": project.session, "images": told}

    @router.post("/api/labels")
    def mark(body: Mark) -> dict[str, Any]:
        if body.session not in (None, project.session):
            raise Conflict("the server was started anew and counts its images anew; load the page again")
        project.writing(labels.mark, body.ids, body.value)
        return project.state()

    @router.post("/api/undo")
    def undo() -> dict[str, Any]:
        undone = project.writing(labels.undo)
        told = None if undone is None else {"ids": undone.rows, "value": undone.value}
        return {"undone": told, **project.state()}

    return router


def _proposed(project: Project, proposal: Proposal) -> dict[str, Any]:
    """What is told of a proposal; who labels an image that judges the model does not hear its guess."""
    beliefs = None if proposal.why == RANDOM else project.beliefs
    return grid.describe(proposal.row, project.labels, beliefs) | {"why": proposal.why}


def look_routes(project: Project) -> APIRouter:
    """The grid, and the pictures in it."""
    router = APIRouter()

    @router.get("/api/images")
    def images(
        filter: str = "all", sort: grid.Sort = "name", offset: int = 0, limit: int = 200
    ) -> dict[str, Any]:
        found = grid.page(
            project.labels, project.beliefs, which=filter, sort=sort, offset=offset, limit=limit
        )
        return {"session": project.session, **found}

    @router.get("/thumb/{number}")
    def thumb(number: int, size: int = SIZES[0]) -> Response:
        if size not in SIZES:
            raise Missing(f"pictures have {', '.join(map(str, SIZES))} pixels")
        small = project.album.thumbnail(number, size)
        headers = {"cache-control": "private, max-age=86400, immutable"}
        if small.broken:
            headers = {"cache-control": "no-store", "x-broken": "1"}
        return Response(small.content, media_type=small.kind, headers=headers)

    return router


def fit_routes(project: Project) -> APIRouter:
    """Training, its results, the doctor."""
    router = APIRouter()

    @router.post("/api/train")
    def train(body: Train) -> dict[str, Any]:
        project.fits.start(body.budget, project.table(), force=body.force)
        return project.state()

    @router.post("/api/train/stop")
    def stop() -> dict[str, Any]:
        project.fits.stop()
        return project.state()

    @router.get("/api/fits")
    def fits() -> dict[str, Any]:
        return project.results()

    @router.get("/api/doctor")
    def doctor() -> dict[str, Any]:
        return project.doctor.state(project.fits.findings())

    return router


def export_routes(project: Project) -> APIRouter:
    """What can be taken away: the report, the labels, the model."""
    router = APIRouter()

    @router.get("/report/{name}")
    def report(name: str) -> Response:
        page = (project.fits.run(name) / REPORT).read_bytes()
        headers = {"content-security-policy": SANDBOX}
        return Response(page, media_type=KINDS[".html"], headers=headers)

    @router.get("/api/export/labels.csv")
    def labels() -> Response:
        return Response(project.table(), media_type="text/csv", headers=_saved_as("labels.csv"))

    @router.get("/api/export/model/{name}")
    def model(name: str) -> StreamingResponse:
        run = project.fits.run(name)
        found = [path for path in (run / file for file in MODEL) if path.exists()]
        stem = f"interlude-model-{name}"
        return StreamingResponse(
            zipped(found, stem), media_type="application/zip", headers=_saved_as(f"{stem}.zip")
        )

    return router


def _saved_as(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _refusal(code: int) -> Any:
    def answer(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": " ".join(str(error).split())}, code)

    return answer


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return JSONResponse({"error": f"{where} cannot be used: {first['msg'].lower()}"}, 422)


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code)
