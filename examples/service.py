"""Serve a saved model over HTTP with FastAPI: one row or a batch per request.

    pip install 'mtlrun[service]'
    mtlrun compare simulated-grades.csv --target grade --task school
    MODEL=results/runs/compare/simulated-grades uvicorn service:app

The model is loaded once, when the service starts. Open http://127.0.0.1:8000/docs to
try the requests, or send rows:

    curl -X POST http://127.0.0.1:8000/predict -H 'Content-Type: application/json' \
        -d '{"rows": [{"school": "school 03", "prior_score": 65, "study_hours": 4,
            "days_absent": 2, "age": 15, "books": 2}]}'
"""

import os
import unicodedata
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, Field, Strict
from threadpoolctl import threadpool_limits

from mtlrun import load_model
from mtlrun.errors import UserError

#: Rows of a request; larger batches belong on the command line (`mtlrun predict`).
MAX_ROWS = 10_000


#: Faults of a request that are listed.
MAX_DETAILS = 10
#: Characters of a name or a text in a row.
MAX_TEXT = 10_000
#: Columns hold whole numbers of 64 bits.
MAX_INTEGER = 2**63 - 1


def check_text(text: str) -> str:
    """Refuse lone surrogates, which JSON can hold but no file and no answer can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text is not valid Unicode") from None
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(check_text)]
Cell = (
    Annotated[bool, Strict()]
    | Annotated[int, Strict(), Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
    | Annotated[float, Strict(), Field(allow_inf_nan=False)]
    | Text
    | None
)


class Rows(BaseModel):
    """New rows: an object per row, with a value for each column; null if missing."""

    rows: list[dict[Text, Cell]] = Field(min_length=1, max_length=MAX_ROWS)
    interval: float | None = Field(None, gt=0, lt=1)


def check_columns(rows: list[dict[str, Any]], columns: Collection[str]) -> None:
    """Refuse rows with columns that the model does not have.

    A data frame has a cell for each row and each name that any row has, so ten thousand
    rows with names of their own would fill the memory.

    Raises
    ------
    HTTPException
    """
    for number, row in enumerate(rows):
        for name in row:
            if unicodedata.normalize("NFC", name.strip()) not in columns:
                detail = f"rows.{number}: the model has no column {name[:80]!r}"
                raise HTTPException(422, detail)


def create_app(folder: str | Path) -> FastAPI:
    """Return the service for the model in a folder.

    Parameters
    ----------
    folder : str or Path
        Of a comparison, or of a saved model.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.model = load_model(folder)
        app.state.columns = frozenset(app.state.model.feature_names_in_)
        # One row is too little work to share: with several threads each, requests that
        # run at the same time would compete for the cores.
        with threadpool_limits(1):
            yield

    app = FastAPI(title="Predictions of a model", lifespan=lifespan)

    @app.exception_handler(400)
    async def reject(request: Request, error: HTTPException) -> JSONResponse:
        """Answer 422, as for other invalid rows, if the body cannot be parsed."""
        return JSONResponse({"detail": error.detail}, 422)

    @app.exception_handler(RequestValidationError)
    async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
        """Answer 422 without the input, which may be no valid JSON (NaN, surrogates)."""
        details = []
        for item in error.errors():
            place = ".".join(map(str, item["loc"]))
            details.append(
                f"{place}: {item['msg']}".encode("ascii", "backslashreplace")
            )
        text = b"; ".join(details[:MAX_DETAILS]).decode()
        return JSONResponse({"detail": text}, 422)

    @app.get("/about")
    def about() -> dict[str, Any]:
        """Return what the model predicts, what it needs, and what it was made with."""
        facts = app.state.model.about
        return {
            "method": facts["estimator"]["name"],
            "outputs": app.state.model.target_names,
            "columns": list(app.state.model.feature_names_in_),
            "categories": facts["input"].get("categories", {}),
            "tasks": app.state.model.task_names,
            "versions": {
                "mtlrun": facts["mtlrun"],
                "python": facts["python"],
                **facts["packages"],
            },
        }

    @app.post("/predict")
    def predict(request: Rows) -> list[dict[str, Any]]:
        """Return an object per row: predictions, and what is unusual about the row.

        What the model cannot predict is null: JSON has no NaN.
        """
        model = app.state.model
        check_columns(request.rows, app.state.columns)
        frame = pd.DataFrame(request.rows)
        try:
            table = model.predict_table(frame, interval=request.interval)
        except (UserError, ValueError) as error:
            raise HTTPException(422, str(error)) from None
        is_number = ~table.isin([np.nan, np.inf, -np.inf])
        return table.astype(object).where(is_number, None).to_dict("records")

    return app


def __getattr__(name: str) -> FastAPI:
    # `uvicorn service:app` asks for `app`; importing this file needs no model.
    if name == "app":
        return create_app(os.environ["MODEL"])
    raise AttributeError(name)
