"""What a comparison found, as DataFrames and as files."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from mtlrun.core.errors import counted, shorten
from mtlrun.core.publish import publish
from mtlrun.core.records import jsonable, write_atomic, writing
from mtlrun.core.visible import visible
from mtlrun.data.dataset import Dataset
from mtlrun.data.files import digest
from mtlrun.data.roles import Roles
from mtlrun.data.tables import Table, data_file, suffix_of
from mtlrun.experiments.models import COEFFICIENTS as MODEL_COEFFICIENTS
from mtlrun.experiments.models import Model
from mtlrun.experiments.predictions import to_csv
from mtlrun.experiments.training import Trained, save_training
from mtlrun.report.board import MULTITASK, Board
from mtlrun.report.leaderboard import (
    json_text,
    leaderboard_grid,
    markdown,
    sections,
    task_grid,
    verdict,
)
from mtlrun.report.text import Grid, csv_grid

CHOSEN, DATA, MODEL = "chosen.yaml", "data", "model"
COEFFICIENTS = "coefficients.csv"
#: What lies beside earlier results while a comparison runs, and after one that was interrupted.
UNFINISHED = ("unfinished.md", "unfinished.json")
#: Up to so many tasks have their names in a figure.
_NAMED_TASKS = 60
#: Characters of a name in a figure.
_LONGEST_NAME = 40


@dataclass
class Comparison:
    """Result of `mtlrun.compare`.

    Attributes
    ----------
    board : Board
        Everything that was measured.
    dataset : Dataset
        What the table became.
    trained : Trained
        The best method, fitted on all rows.
    roles, table, more : Roles, Table, Table or None
        Where the data set came from.
    coefficients : DataFrame or None
        A row per task, a column per feature and ``intercept``; of the best method, if that is not linear of the best
        multi-task one (`coefficients_of`). A feature of the name ``intercept`` or ``task`` is ``intercept (2)`` here.
    coefficients_of : str
    """

    board: Board
    dataset: Dataset
    trained: Trained
    roles: Roles
    table: Table
    more: Table | None
    coefficients: pd.DataFrame | None
    coefficients_of: str

    @property
    def verdict(self) -> str:
        """Whether multi-task learning helped, and which tasks it hurt, in one sentence or two."""
        return verdict(self.board)

    @property
    def leaderboard(self) -> pd.DataFrame:
        """One row per method, the best first: score, spread, ranks, seconds, wins against independent learning, p."""
        return _frame(leaderboard_grid(self.board))

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task, a column per method."""
        return _frame(task_grid(self.board)).set_index("task")

    @property
    def model(self) -> Model:
        """The best method, fitted on all rows: ``model.scores(X, task_id)`` of the columns of the table."""
        return self.trained.model

    @property
    def config(self) -> dict[str, Any]:
        """The best method as a training file."""
        return self.model.facts["config"]

    def plot(self, ax: Any = None) -> Any:
        """Draw the scores of all methods, with the spread over splits; returns the matplotlib axes."""
        ax = _axes(0.35 * len(self.board.entries) + 1) if ax is None else ax
        ranked = self.board.ranked()[::-1]
        table = self.leaderboard.set_index("method")
        spread = [table["std"].get(e.label) for e in ranked]
        colours = ["C0" if e.family == "multi-task" else "0.6" for e in ranked]
        for place, (entry, std, colour) in enumerate(zip(ranked, spread, colours, strict=True)):
            ax.errorbar(entry.score, place, xerr=None if pd.isna(std) else std, fmt="o", color=colour)
        _name_ticks(ax, [e.label for e in ranked])
        direction = "greater" if self.board.greater else "smaller"
        ax.set_xlabel(f"{self.board.metric} ({direction} is better); blue: multi-task")
        return ax

    def plot_tasks(self, ax: Any = None) -> Any:
        """Draw how much the best multi-task method gains on every task over independent learning; returns the axes.

        Tasks to the left of zero are hurt (negative transfer).

        Raises
        ------
        ValueError
            If no multi-task method was fitted.
        """
        joint, base = self.board.best(MULTITASK), self.board.reference
        if joint is None or base is None:
            raise ValueError("no multi-task method was fitted: there is nothing to compare task by task")
        pairs = zip(self.board.tasks, self.board.gains(joint, base), strict=True)
        gains = sorted(((gain, name) for name, gain in pairs if gain is not None), key=lambda pair: pair[0])
        ax = _axes(min(0.2 * len(gains) + 1, 12)) if ax is None else ax
        values = [gain for gain, _ in gains]
        ax.scatter(values, range(len(gains)), s=12, color=["C0" if gain >= 0 else "C1" for gain in values])
        ax.axvline(0.0, color="0.6", linewidth=1)
        few = len(gains) <= _NAMED_TASKS
        _name_ticks(ax, [name for _, name in gains] if few else [])
        ax.set_ylabel("" if few else f"{counted(len(gains), 'task')}, in the order of the gain")
        ax.set_xlabel(f"gain in {self.board.metric} of {joint.label} over {base.label}; left of 0: hurt")
        return ax

    def page(self) -> str:
        """Return ``leaderboard.html``: verdict, figures and tables in one file that loads nothing."""
        from mtlrun.report.html import html_page  # a template engine, and matplotlib for the figures

        drawn = [(self.plot().figure, "Scores, with the standard deviation over the splits")]
        if self.board.best(MULTITASK) is not None and self.board.reference is not None:
            drawn.append((self.plot_tasks().figure, "Gain of the best multi-task method, task by task"))
        found = [section for section in sections(self.board) if section.title != "Verdict"]
        return html_page(self.board.title, [self.verdict], found, drawn)

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder.

        ``leaderboard.html``, ``leaderboard.md``, ``.json``, ``.csv``, ``tasks.csv``, ``coefficients.csv`` (task by
        feature), ``chosen.yaml`` (for ``mtlrun train chosen.yaml --data-dir data``), ``data`` (the table and its card)
        and ``model`` (for ``mtlrun predict model NEW``).

        Raises
        ------
        UserError
            If the folder cannot be written.
        """
        folder = Path(folder)
        gone = [*UNFINISHED, COEFFICIENTS, f"{MODEL}/{MODEL_COEFFICIENTS}"]
        with writing(folder, "Make room, or choose another folder."), publish(folder, gone) as new:
            self._write(new, folder)
        return folder

    def _write(self, folder: Path, home: Path) -> None:
        """Write all files into a folder; in `home` they will lie."""
        write_atomic(folder / "leaderboard.md", markdown(self.board))
        write_atomic(folder / "leaderboard.html", self.page())
        write_atomic(folder / "leaderboard.json", json_text(self.board))
        write_atomic(folder / "leaderboard.csv", csv_grid(leaderboard_grid(self.board)))
        write_atomic(folder / "tasks.csv", csv_grid(task_grid(self.board)))
        if self.coefficients is not None:
            write_atomic(folder / COEFFICIENTS, to_csv(self.coefficients.reset_index()))
        self._save_data(folder / DATA, home / DATA)
        write_atomic(folder / CHOSEN, self._yaml())
        save_training(self.trained, folder / MODEL)

    def _yaml(self) -> str:
        config = {key: value for key, value in self.config.items() if value not in (None, "", {}, [])}
        config["dataset"] = config["dataset"]["id"]
        text = yaml.safe_dump(jsonable(config), sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
        head = (
            f"# The best method of a comparison on {self.dataset.title}, searched and fitted again on the same data.\n"
        )
        return f"{head}# Run it here with: mtlrun train {CHOSEN} --data-dir {DATA}\n{text}"

    def _save_data(self, folder: Path, home: Path) -> None:
        """Store the table beside a card that says what its columns are."""
        files = [self._store(self.table, folder, home, "rows")]
        options: dict[str, Any] = {"data": files[0]["name"]}
        if self.more is not None:
            files.append(self._store(self.more, folder, home, "test"))
            options["test"] = files[1]["name"]
        standard = asdict(Roles())
        for key, value in asdict(self.roles).items():
            if value != standard[key]:
                options[key] = list(value) if isinstance(value, tuple) else value
        card = {
            "schema": 1,
            "id": self.dataset.id,
            "title": self.dataset.title,
            "task_type": self.dataset.task_type,
            "design": "shared" if self.dataset.task_id is None else "ragged",
            "reader": {"name": "table", "options": options},
            "folder": self.dataset.id,
            "files": files,
            "licence": "that of the user's data",
            "citation": "none",
        }
        text = yaml.safe_dump(jsonable(card), sort_keys=False, allow_unicode=True)
        write_atomic(folder / "cards" / f"{self.dataset.id}.yaml", text)

    def _store(self, table: Table, folder: Path, home: Path, part: str) -> dict[str, Any]:
        """Write a table into the folder, a file as it was read and a frame as csv; return its entry in the card."""
        folder, home, source = folder / self.dataset.id, home / self.dataset.id, table.source
        if source is None:
            content = table.frame.to_csv(index=False).encode()
            write_atomic(folder / f"{part}.csv", content)
            return _entry(f"{part}.csv", hashlib.sha256(content).hexdigest(), len(content))
        place = home / f"{part}{suffix_of(source.path)}"
        if place.exists() and source.path.exists() and place.samefile(source.path):
            if digest(data_file(place)[0]) == (source.sha256, source.size):
                return _entry(place.name, source.sha256, source.size)
            place = place.with_stem(f"{part}-as-read")  # the user has changed the file: it stays as it is
        write_atomic(folder / place.name, source.read_bytes())
        return _entry(place.name, source.sha256, source.size)


def save_unfinished(folder: Path, board: Board) -> Path:
    """Write the leaderboard of a comparison that goes on and return its file; earlier results stay as they are.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    for name, text in zip(UNFINISHED, (markdown(board), json_text(board)), strict=True):
        write_atomic(folder / name, text, durable=False)
    return folder / UNFINISHED[0]


def _entry(name: str, sha256: str, size: int) -> dict[str, Any]:
    return {"name": name, "sha256": sha256, "bytes": size}


def _axes(height: float) -> Any:
    """Return the axes of a new figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(7, height), layout="constrained").subplots()


def _name_ticks(ax: Any, names: list[str]) -> None:
    """Write names from a table beside the rows of a figure: short, without control characters, never as formulas."""
    texts = [visible(shorten(" ".join(name.split()), _LONGEST_NAME)) for name in names]
    ax.set_yticks(range(len(texts)), texts, parse_math=False)


def _frame(grid: Grid) -> pd.DataFrame:
    return pd.DataFrame(grid.rows, columns=[column.name for column in grid.columns])
