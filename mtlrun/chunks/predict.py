"""Predict tables larger than memory: files are read, predicted and written in parts."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from mtlrun.chunks.sums import ReadProgress
from mtlrun.chunks.table import frames_of, release_memory
from mtlrun.data.reading.files import suffix_of
from mtlrun.data.reading.table import Table, table_of_frame
from mtlrun.data.roles.schema import NewRows, Schema, UnknownTasks, new_rows
from mtlrun.errors import DataError, counted, listed
from mtlrun.utils.io import file_json, read_text_file, replacing, write_atomic

#: Rows that are predicted at a time.
MAX_ROWS = 1 << 17
#: File of a folder of predictions with the files that are finished.
FINISHED = "predictions.json"


@dataclass
class PredictedFiles:
    """Differences from the training rows in all parts that were predicted.

    Attributes
    ----------
    n_rows, n_predicted : int
    cells : dict of str to Counter
        Rows by kind of flag and column.
    unknown_tasks : Counter
        Rows of each task that no training row had.
    """

    n_rows: int = 0
    n_predicted: int = 0
    cells: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unknown_tasks: Counter[str] = field(default_factory=Counter)

    def add(self, rows: NewRows, unknown: UnknownTasks, n_predicted: int) -> None:
        """Count the rows of a part."""
        self.n_rows += rows.X.shape[0]
        self.n_predicted += n_predicted
        for kind, masks in rows.masks().items():
            for name, mask in masks.items():
                self.cells[kind][name] += int(mask.sum())
        if unknown.names and isinstance(rows.tasks, list):
            names = set(unknown.names)
            self.unknown_tasks.update(name for name in rows.tasks if name in names)

    def sentences(self) -> list[str]:
        """Return a line per kind of row that is unlike the training rows."""
        sentences = []
        for kind, counts in self.cells.items():
            columns = [f"{name!r} ({n:,})" for name, n in counts.most_common()]
            if columns:
                sentences.append(f"rows with {kind}: {listed(columns)}")
        if self.unknown_tasks:
            n_rows = self.unknown_tasks.total()
            tasks = (
                f"{counted(len(self.unknown_tasks), 'task')} that no training row had"
            )
            names = [name for name, _ in self.unknown_tasks.most_common()]
            sentences.append(f"{n_rows:,} rows of {tasks}: {listed(names)}")
        return sentences


def tables_of(file: Path, schema: Schema) -> Iterator[Table]:
    """Yield the rows of a file as tables, whose rows are numbered as in the file."""
    first = 0
    # Line 1 of a csv file has the names of the columns.
    offset = 1
    mark = ": row "
    if suffix_of(file) == ".csv":
        offset = 2
        mark = ":"
    for frame in frames_of(file, None, MAX_ROWS, schema.task_column):
        if not len(frame):
            continue
        table = table_of_frame(frame.reset_index(drop=True), str(file), schema)
        numbers = np.arange(first, first + len(frame)) + offset
        table.locate = lambda row, numbers=numbers: f"{file}{mark}{numbers[row]}"
        table.lines = numbers.tolist
        yield table
        first += len(frame)


def predict_files(
    files: Sequence[Path],
    output: Path,
    schema: Schema,
    predict: Callable[[NewRows, PredictedFiles], pd.DataFrame],
    to_text: Callable[[pd.DataFrame], str],
    key: str,
    say: Callable[[str], None],
) -> PredictedFiles:
    """Predict files, and write a csv file for each, or one for all.

    Parameters
    ----------
    files : sequence of Path
    output : Path
        A file if it ends with ``.csv`` or ``.txt``, ``-`` for the terminal, else a
        folder. Files that an earlier, interrupted call finished in this folder are not
        predicted again.
    schema : Schema
        Columns of the model.
    predict : callable
        Returns the predictions of rows, and counts them.
    to_text : callable
        Returns predictions as CSV.
    key : str
        What decides the predictions: the model and the options.
    say : callable
        Called with a line of progress.

    Raises
    ------
    DataError
        As `mtlrun.data.roles.schema.new_rows`, and for a model that needs all rows of a
        task at once.
    """
    if schema.clock is not None:
        raise DataError(
            "the model needs all rows of a task at once, for the time since the first",
            "Predict the files one by one, each with all rows of its tasks.",
        )
    progress = ReadProgress(say, files)
    counts = PredictedFiles()

    def texts(file: Path, *, has_header: bool) -> Iterator[str]:
        for table in tables_of(file, schema):
            predictions = predict(new_rows(table, schema), counts)
            text = to_text(predictions)
            if not has_header:
                text = text.partition("\n")[2]
            has_header = False
            progress.add(len(predictions), 0)
            yield text
        progress.add(0, 1)
        release_memory()

    texts_of_files = (texts(file, has_header=file is files[0]) for file in files)
    all_texts = chain.from_iterable(texts_of_files)
    if str(output) == "-":
        sys.stdout.writelines(all_texts)
        return counts
    if output.suffix.lower() in (".csv", ".txt"):
        with replacing(output) as new_file, new_file.open("wb") as stream:
            stream.writelines(map(str.encode, all_texts))
        return counts
    output.mkdir(parents=True, exist_ok=True)
    root = Path(os.path.commonpath([file.absolute().parent for file in files]))
    finished = _finished(output / FINISHED, key)
    for file in files:
        part = output / file.absolute().relative_to(root).with_suffix(".csv")
        stat = file.stat()
        state = [stat.st_size, stat.st_mtime_ns]
        name = part.relative_to(output).as_posix()
        if finished.get(name) == state and part.is_file():
            say(f"{part} was predicted before")
            continue
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(part) as new_file, new_file.open("wb") as stream:
                stream.writelines(map(str.encode, texts(file, has_header=True)))
        except KeyboardInterrupt:
            say(
                f"finished so far: {counted(len(finished), 'file')} of {len(files)} in "
                f"{output}; the same command goes on there"
            )
            raise
        finished[name] = state
        content = {"key": key, "files": finished}
        write_atomic(output / FINISHED, file_json(content))
    return counts


def _finished(path: Path, key: str) -> dict[str, list[int]]:
    """Return the files that were finished with the same model and options."""
    try:
        content = json.loads(read_text_file(path))
        if content["key"] == key:
            return dict(content["files"])
    except (DataError, OSError, ValueError, KeyError, TypeError):
        # There are none yet, or the file was damaged.
        return {}
    # Of another model, or with other options.
    return {}
