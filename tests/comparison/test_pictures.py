"""The figures of a comparison show its numbers and the names of its tasks."""

import re
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose
from scipy.special import expit

import mtlrun
from mtlrun.comparison.evaluation import Evaluation
from mtlrun.comparison.gain import RowIndex
from mtlrun.comparison.gallery import (
    MAX_PANELS,
    MAX_TASK_LINES,
    pictures_of,
    read_pictures,
)
from mtlrun.comparison.page import predictions_figure
from mtlrun.comparison.predictions import held_out_predictions
from mtlrun.comparison.verdict import MULTITASK, POOLED, Strategy
from mtlrun.errors import DataError, UnknownNameError, UserError
from mtlrun.show.drawing import draw, inline_svg, svg
from mtlrun.show.palette import LOSS_COLOR
from mtlrun.show.pictures import (
    N_EXTREMES,
    PICTURES,
    Interval,
    PictureError,
    format_gain,
)

FAST = {"splits": 3, "repeats": 1, "folds": 2}


def schools(n_tasks=6, n_rows=12, seed=0):
    """Return rows of schools; the first school has fewer rows than the last."""
    rng = np.random.default_rng(seed)
    sizes = n_rows + 2 * np.arange(n_tasks)
    school = np.repeat(np.arange(n_tasks), sizes)
    rows = pd.DataFrame(rng.normal(size=(len(school), 2)), columns=["hours", "age"])
    slopes = 1 + 0.5 * rng.normal(size=n_tasks)
    noise = rng.normal(size=len(school))
    rows["grade"] = rows.hours * slopes[school] + school / 4 + noise
    rows["school"] = [f"school {k}" for k in school]
    return rows


def photos(n=100):
    """Return rows with two labels."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(rng.normal(size=(n, 2)), columns=list("ab"))
    for k, name in enumerate(["sea", "sky"]):
        score = rows.a + 0.5 * k * rows.b + rng.normal(size=n)
        rows[name] = np.where(score > 0, "yes", "no")
    return rows


@pytest.fixture(scope="module")
def ragged():
    return mtlrun.compare(
        schools(), target="grade", task="school", methods=["HierarchicalMTL"], **FAST
    )


@pytest.fixture(scope="module")
def labels():
    methods = ["GraphMTLClassifier", "IndependentSVC"]
    return mtlrun.compare(photos(), targets=["sea", "sky"], methods=methods, **FAST)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def names_of(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def points_of(axes, color=None):
    """Return the individual points of axes in drawing order."""
    points = []
    for line in axes.lines:
        is_point = len(line.get_xdata()) == 1 and line.get_marker() in "o^v"
        if is_point and color in (None, to_hex(line.get_color())):
            points.append((line.get_xdata()[0], line.get_ydata()[0]))
    return points


def test_the_verdict_is_drawn_with_a_gain_per_alternative(ragged):
    axes = ragged.plot_verdict()
    answer = ragged.board.answer
    gains = [answer.versus_separate, answer.versus_pooled]
    assert_allclose([x for x, _ in points_of(axes)], [gain.value for gain in gains])
    ends = [
        line.get_xdata()
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]
    assert_allclose(ends, [[gain.low, gain.high] for gain in gains])
    (band,) = axes.patches
    assert band.get_x() == -ragged.board.evaluation.smallest
    assert len(names_of(axes)) == 2
    bold = [t.get_text() for t in axes.get_yticklabels() if t.get_weight() == "bold"]
    smaller = int(gains[1].value < gains[0].value)
    assert bold == [names_of(axes)[smaller]]
    texts = [text.get_text() for text in axes.texts]
    for interval in ragged.pictures.verdict().intervals:
        assert interval.text("nMSE") in texts


def test_tasks_are_named_and_their_gains_are_relative_to_single_task_models(ragged):
    axes = ragged.plot_tasks()
    assert sorted(names_of(axes)) == sorted(ragged.board.tasks)
    drawn = dict(zip(names_of(axes), (x for x, _ in points_of(axes)), strict=True))
    gains = ragged.board.answer.versus_separate.tasks
    assert_allclose([drawn[name] for name in ragged.board.tasks], gains)


def test_methods_have_the_gains_of_the_leaderboard(ragged):
    axes = ragged.plot()
    board = ragged.leaderboard.set_index("method")["gain"].dropna()
    intervals = ragged.pictures.method_gains
    assert names_of(axes) == [interval.name for interval in intervals]
    values = [interval.value for interval in intervals]
    assert values == sorted(values, reverse=True)
    assert_allclose(
        [interval.value for interval in intervals],
        board[[interval.name for interval in intervals]],
    )


def test_a_gain_is_an_open_mark_only_if_it_is_undecided(ragged):
    """Whatever its method: a mean of the task that loses is purple, not gray."""
    axes = ragged.plot()
    open_marks = {
        axes.get_yticklabels()[int(line.get_ydata()[0])].get_text()
        for line in axes.lines
        if line.get_markerfacecolor() == "white"
    }
    intervals = ragged.pictures.method_gains
    undecided = {i.name for i in intervals if i.low <= 0 <= i.high}
    assert open_marks == undecided
    assert "TaskMean" in {i.name for i in intervals} - undecided


def test_gains_are_drawn_at_the_number_of_rows_of_their_task(ragged):
    axes = ragged.plot_gains()
    drawn = np.array(points_of(axes))
    assert_allclose(drawn[:, 0], ragged.board.sizes)
    assert_allclose(drawn[:, 1], ragged.board.answer.versus_separate.tasks)
    named = {text.get_text() for text in axes.texts}
    assert named <= set(ragged.board.tasks)
    assert len(named) > 2


@pytest.mark.rendered
def test_every_point_on_the_page_has_a_name(ragged):
    page = inline_svg(ragged.pictures.gains_by_rows(), "gains")
    names = zip(ragged.board.tasks, ragged.board.sizes, strict=True)
    for point, (name, size) in enumerate(names):
        assert f'id="gains-point-{point}"><title>{name}: {size} rows' in page


def test_the_heat_map_has_a_cell_per_task_and_method(ragged):
    axes = ragged.plot_heatmap()
    assert names_of(axes) == ragged.board.tasks
    cells = axes.collections[0].get_array()
    reference = ragged.board.reference
    assert "TaskMean" not in {text.get_text() for text in axes.get_xticklabels()}
    for column, text in enumerate(axes.get_xticklabels()):
        entry = next(e for e in ragged.board.entries if e.label == text.get_text())
        gains = ragged.board.gain(entry, reference).tasks
        assert_allclose(np.reshape(cells, (6, -1))[:, column], gains)


def test_columns_of_the_heat_map_are_in_the_order_of_the_methods(ragged):
    pictures = ragged.pictures
    order = sorted(range(len(pictures.methods)), reverse=True)
    methods = [
        f"{chr(97 + position)} {pictures.methods[position]}" for position in order
    ]
    matrix = [[row[position] for position in order] for row in pictures.matrix]
    picture = replace(pictures, methods=methods, matrix=matrix).heat_map()
    assert picture.methods == methods
    assert picture.values == matrix


def test_predictions_of_tested_rows_give_the_losses_of_the_verdict(ragged):
    frame = ragged.predictions
    table = schools()
    assert sorted(frame.row) == list(range(len(table)))
    assert_allclose(frame.observed, table.grade[frame.row])
    assert list(frame.task) == list(table.school[frame.row])
    evaluation = ragged.board.evaluation
    tasks = [ragged.board.tasks.index(name) for name in frame.task]
    for name, gain in (
        ("separate", ragged.board.answer.versus_separate),
        ("pooled", ragged.board.answer.versus_pooled),
    ):
        mean_losses = []
        for column in ("multi-task", name):
            losses = (frame.observed - frame[column]) ** 2 / evaluation.scales[tasks]
            mean_losses.append(losses.groupby(frame.task).mean().mean())
        assert_allclose(1 - mean_losses[0] / mean_losses[1], gain.value)


def test_a_row_has_the_prediction_of_the_method_selected_in_its_first_split():
    evaluation = Evaluation(
        y=np.array([1.0, 2.0, 3.0, np.nan]),
        row_index=RowIndex(2, np.array([0, 1, 0, 1])),
        rows=[np.array([0, 1]), np.array([1, 2, 3]), np.arange(4)],
        new=[np.zeros(n, dtype=bool) for n in (2, 3, 4)],
        n_folds=3,
        n_repeats=1,
        measure="nMSE",
        smallest=0.01,
    )
    selected = {0: "A", 1: "B", 2: "A"}
    strategy = Strategy(selected, {})
    scores = {("A", 0): [10, 11], ("B", 1): [21, 22, 23], ("A", 2): [30, 31, 32, 33]}

    def read_scores(label, split):
        return np.array(scores[label, split], dtype=float)

    held_out = held_out_predictions(evaluation, {MULTITASK: strategy}, read_scores)
    assert list(held_out.rows) == [0, 1, 2]
    assert list(held_out.predicted["multi-task"]) == [10, 11, 22]
    assert held_out.methods == {"multi-task": ["A", "B"]}
    lost = held_out_predictions(evaluation, {MULTITASK: strategy}, lambda *_: None)
    assert lost is None


def test_panels_show_the_predictions_of_their_task(ragged):
    panels = ragged.plot_predictions(tasks=["school 2", "school 4"])
    assert [axes.get_title(loc="left").split("\n")[0] for axes in panels] == [
        "school 2",
        "school 4",
    ]
    frame = ragged.predictions
    is_task = frame.task == "school 2"
    drawn = panels[0].lines[0]
    assert_allclose(drawn.get_xdata(), frame["multi-task"][is_task])
    assert_allclose(drawn.get_ydata(), frame.observed[is_task])
    slope, intercept = np.polyfit(frame.separate[is_task], frame.observed[is_task], 1)
    line = next(line for line in panels[0].lines if line.get_label() == "separate")
    assert_allclose(line.get_ydata(), intercept + slope * line.get_xdata())


def test_arrows_point_from_single_task_to_multi_task_means(ragged):
    axes = ragged.plot_shrinkage()
    means = ragged.predictions.groupby("task")[["separate", "pooled", "multi-task"]]
    means = means.mean().loc[names_of(axes)]
    for name in ("separate", "pooled", "multi-task"):
        line = next(line for line in axes.lines if line.get_label() == name)
        assert_allclose(line.get_xdata(), means[name])
    arrows = [(text.xyann[0], text.xy[0]) for text in axes.texts]
    assert_allclose(arrows, means[["separate", "multi-task"]])


def test_arrows_of_a_column_end_at_the_coefficients(ragged):
    axes = ragged.plot_shrinkage(column="hours")
    line = next(line for line in axes.lines if line.get_label() == "partially pooled")
    assert_allclose(line.get_xdata(), ragged.coefficients.hours[names_of(axes)])
    assert axes.get_xlabel().startswith("grade per ")
    with pytest.raises(UnknownNameError):
        ragged.plot_shrinkage(column="weight")


def test_a_task_without_a_gain_cannot_be_named(ragged):
    name = ragged.pictures.tasks[0]
    gains = [None, *ragged.pictures.task_gains[1:]]
    pictures = replace(ragged.pictures, task_gains=gains)
    with pytest.raises(PictureError, match=name) as raised:
        pictures.task_intervals([name])
    assert raised.value.remedy


def test_calibration_counts_all_rows_and_their_labels(labels):
    axes = labels.plot_calibration()
    frame = labels.predictions
    probability = expit(frame.separate)
    is_low = probability < 0.1
    line = next(line for line in axes.lines if line.get_label() == "separate")
    assert_allclose(line.get_xdata()[0], probability[is_low].mean())
    assert_allclose(line.get_ydata()[0], (frame.observed[is_low] > 0).mean())
    counts_axes = axes.figure.axes[1]
    heights = [bar.get_height() for bar in counts_axes.patches]
    assert sum(heights) == 3 * len(frame)
    assert heights[0] == is_low.sum()


def test_panels_of_labels_are_shares_of_positive_rows(labels):
    panels = labels.plot_predictions()
    assert len(panels) == 2
    line = next(line for line in panels[0].lines if line.get_label() == "multi-task")
    frame = labels.predictions
    title = panels[0].get_title(loc="left").split("\n")[0]
    is_task = frame.task == title
    assert_allclose(line.get_ydata().mean(), (frame.observed[is_task] > 0).mean())


def test_scores_without_probabilities_are_named(labels):
    picture = labels.pictures.calibration()
    chosen = [name for names in labels.held_out.methods.values() for name in names]
    assert ("IndependentSVC" in picture.caption) == ("IndependentSVC" in chosen)
    methods = {**labels.held_out.methods, "separate": ["IndependentSVC"]}
    forced = pictures_of(labels.board, replace(labels.held_out, methods=methods))
    assert forced.without_probabilities == ["IndependentSVC"]
    assert "IndependentSVC" in forced.calibration().caption


def test_figures_are_drawn_into_existing_axes(labels):
    for kind in set(PICTURES) - {"curve", "gains"}:
        figure, axes = plt.subplots()
        drawn = np.ravel(draw(labels.pictures.of_kind(kind), axes))
        assert {one.figure for one in drawn} == {figure}
        figure.canvas.draw()


def test_numbers_have_no_calibration(ragged):
    with pytest.raises(PictureError, match="labels"):
        ragged.plot_calibration()


def test_without_pooled_models_the_verdict_has_one_gain(ragged):
    entries = [e for e in ragged.board.entries if e.family != POOLED]
    board = replace(ragged.board, entries=entries)
    board.__dict__.pop("answer", None)
    held_out = replace(
        ragged.held_out,
        predicted={
            name: values
            for name, values in ragged.held_out.predicted.items()
            if name != "pooled"
        },
    )
    pictures = pictures_of(board, held_out)
    assert len(pictures.verdict().intervals) == 1
    for kind in set(PICTURES) - {"calibration", "curve"}:
        draw(pictures.of_kind(kind))


def test_without_multi_task_methods_there_is_no_verdict_to_draw(ragged):
    entries = [e for e in ragged.board.entries if e.family != MULTITASK]
    pictures = pictures_of(replace(ragged.board, entries=entries), None)
    for kind in ("verdict", "tasks", "gains", "predictions"):
        with pytest.raises(PictureError):
            pictures.of_kind(kind)
    draw(pictures.of_kind("methods"))


def test_without_multi_task_methods_the_panels_name_whose_points_they_show(ragged):
    predicted = dict(ragged.held_out.predicted)
    del predicted["multi-task"]
    held_out = replace(ragged.held_out, predicted=predicted)
    picture = replace(ragged.pictures, held_out=held_out).predictions()
    assert picture.points_of == "separate"
    assert "multi-task" not in picture.caption
    figure = predictions_figure(replace(ragged.pictures, held_out=held_out))
    assert list(figure.strategies) == ["separate", "pooled"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"time": "day", "drop": ["day2"]},
        {"group": "day", "drop": ["day2"]},
        {"weight": "day2", "drop": ["day"]},
        {"new_tasks": True, "drop": ["day", "day2"]},
    ],
    ids=["time", "group", "weight", "new tasks"],
)
def test_other_designs_are_drawn(options):
    table = schools(4, 12)
    table["day"] = np.arange(len(table)) % 12
    table["day2"] = np.arange(len(table)) % 3
    result = mtlrun.compare(
        table, target="grade", task="school", methods=["GraphMTL"], **FAST, **options
    )
    page = result.page()
    assert page.count("<svg ") > 5
    frame = result.predictions
    assert not frame.row.duplicated().any()
    if "weight" in options:
        assert len(frame) == (table[options["weight"]] > 0).sum()


@pytest.mark.slow
def test_tasks_without_training_rows_are_not_drawn():
    table = schools(4, 24)
    new = schools(5, 12, seed=1)
    result = mtlrun.compare(
        table,
        target="grade",
        task="school",
        test=new,
        unseen="mean",
        methods=["GraphMTL"],
        **FAST,
    )
    assert "school 4" not in set(result.predictions.task)
    assert "school 4" not in names_of(result.plot_tasks())
    assert result.page().count("<svg ") > 5


@pytest.mark.slow
def test_small_unusual_tables_are_drawn_without_warnings():
    table = schools(3, 24)
    table["school"] = table.school.replace(
        {"school 0": "Schule Größe 学校 學校 مدرسة", "school 1": "x" * 300}
    )
    rare = table.head(2).assign(school="two rows")
    table = pd.concat([table.drop(columns="age"), rare.drop(columns="age")])
    result = mtlrun.compare(
        table,
        target="grade",
        task="school",
        methods=["GraphMTL"],
        min_rows=2,
        unseen="mean",
        **FAST,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        page = result.page()
    assert "two rows" in page
    assert max(len(name) for name in names_of(result.plot_tasks())) <= 30


def test_a_failed_method_does_not_affect_other_figures(ragged):
    entries = []
    for entry in ragged.board.entries:
        if entry.label == "IndependentRidgeCV":
            entry = replace(
                entry, losses={}, scores={}, failures=dict.fromkeys(range(3), "no")
            )
        entries.append(entry)
    pictures = pictures_of(replace(ragged.board, entries=entries), ragged.held_out)
    assert "IndependentRidgeCV" not in pictures.methods
    draw(pictures.of_kind("heatmap"))


def many_tasks(pictures, n_tasks=139):
    """Return figures of many tasks, with gains from clear losses to clear gains."""
    rng = np.random.default_rng(0)
    intervals = []
    for t in range(n_tasks):
        value = 0.1 * rng.normal()
        intervals.append(Interval(f"task {t}", value, value - 0.05, value + 0.05))
    rows = np.arange(10 * n_tasks)
    noise = rng.normal(size=len(rows))
    held_out = replace(
        pictures.held_out,
        rows=rows,
        tasks=rows % n_tasks,
        observed=noise,
        predicted={
            name: noise / 2 + rng.normal(size=len(rows))
            for name in ("separate", "pooled", "multi-task")
        },
    )
    return replace(
        pictures,
        tasks=[f"task {t}" for t in range(n_tasks)],
        sizes=[10] * n_tasks,
        task_gains=intervals,
        matrix=[[0.1] * len(pictures.methods)] * n_tasks,
        held_out=held_out,
    )


def test_a_value_that_is_not_very_distant_lies_inside_the_axis(ragged):
    gains = [
        Interval("Joint", 0.075, 0.003, 0.147),
        Interval("Graph", 0.066, 0.013, 0.118),
        Interval("Alone", -0.057, -0.116, 0.003),
        Interval("Pooled", -0.398, -0.617, -0.18),
    ]
    pictures = replace(ragged.pictures, method_gains=gains)
    low, high = draw(pictures.method_intervals()).get_xlim()
    assert -0.6 < low < -0.42
    assert 0.147 < high < 0.2


def test_small_tasks_have_no_panels_where_there_are_enough_others(ragged):
    pictures = many_tasks(ragged.pictures)
    small = sorted(range(139), key=lambda t: -pictures.task_gains[t].clearness)[:6]
    sizes = [3 if t in small else 10 for t in range(139)]
    picture = replace(pictures, sizes=sizes).predictions()
    assert len(picture.panels) == MAX_PANELS
    names = {panel.name for panel in picture.panels}
    assert not names & {f"task {t}" for t in small}
    assert "fewer than" in picture.caption
    assert "fewer than" not in pictures.predictions().caption
    all_small = replace(pictures, sizes=[3] * 139).predictions()
    assert len(all_small.panels) == MAX_PANELS
    assert "fewer than" not in all_small.caption


def test_with_many_tasks_the_clearest_gains_are_drawn_and_the_caption_mentions_it(
    ragged,
):
    pictures = many_tasks(ragged.pictures)
    tasks = pictures.task_intervals()
    assert len(tasks.intervals) == MAX_TASK_LINES
    assert "139" in tasks.selection
    values = sorted(interval.value for interval in pictures.task_gains)
    drawn = sorted(interval.value for interval in tasks.intervals)
    half = MAX_TASK_LINES // 2
    assert drawn == values[:half] + values[-half:]
    assert len(pictures.predictions().panels) == MAX_PANELS
    assert "139" in pictures.predictions().caption
    assert len(pictures.shrinkage().arrows) == 139
    assert len(pictures.shrinkage().rows) == 2 * N_EXTREMES
    assert len(pictures.heat_map().tasks) == MAX_TASK_LINES
    sizes = [10 + t % 2 for t in range(139)]
    assert len(replace(pictures, sizes=sizes).gains_by_rows().intervals) == 139


def numbers_at_triangles(axes):
    """Return the numbers that are written at the ends of the axis."""
    return [text.get_text() for text in axes.texts]


def test_a_bad_method_is_a_triangle_with_its_number_and_does_not_squeeze_the_axis(
    ragged,
):
    gains = [
        Interval("Joint", 0.1, 0.05, 0.15),
        Interval("Pooled", -0.02, -0.06, 0.02),
        Interval("TaskMean", -3.0, -3.2, -2.8),
    ]
    pictures = replace(ragged.pictures, method_gains=gains)
    axes = draw(pictures.method_intervals())
    low, high = axes.get_xlim()
    assert -0.1 < low < -0.06
    assert 0.15 < high < 0.2
    (triangle,) = [line for line in axes.lines if line.get_marker() == "<"]
    assert triangle.get_xdata()[0] == low
    assert to_hex(triangle.get_color()) == LOSS_COLOR.lower()
    assert numbers_at_triangles(axes) == ["-300%"]


def test_all_gains_lie_on_the_axis(ragged):
    gains = [Interval(f"m{k}", 0.001, -0.01, 0.01) for k in range(9)]
    gains.append(Interval("best", 0.6, 0.5, 0.7))
    pictures = replace(ragged.pictures, method_gains=gains)
    axes = draw(pictures.method_intervals())
    assert len(points_of(axes)) == 10
    assert numbers_at_triangles(axes) == []


def test_long_intervals_do_not_stretch_an_axis(ragged):
    near = [Interval(f"task {t}", 0.1, 0.0, 0.2) for t in range(9)]
    wide = [*near, Interval("task 9", 0.1, -9.0, 9.2)]
    axes = draw(replace(ragged.pictures, task_gains=wide).task_intervals())
    assert -1 < axes.get_xlim()[0] < axes.get_xlim()[1] < 1


def test_a_task_that_loses_far_more_than_others_does_not_squeeze_the_gains(ragged):
    values = [0.1, 0.2, -0.1, 0.05, -0.2, -40.0]
    gains = [Interval(f"school {t}", v, v - 0.1, v + 0.1) for t, v in enumerate(values)]
    axes = draw(replace(ragged.pictures, task_gains=gains).gains_by_rows())
    assert -1 < axes.get_ylim()[0] < axes.get_ylim()[1] < 1


@pytest.mark.parametrize("bad", [0, 1])
def test_a_bad_alternative_does_not_squeeze_the_decisive_gain(ragged, bad):
    both = Interval("both", 0.02, -0.01, 0.05)
    gains = [replace(both, name="near"), both]
    gains.insert(bad, Interval("bad", 0.96, 0.93, 0.98))
    axes = draw(replace(ragged.pictures, gains=gains).verdict())
    assert axes.get_xlim()[1] < 0.2
    assert "96%" in numbers_at_triangles(axes)
    assert len(points_of(axes)) == 1


def test_tasks_that_lose_are_named_in_the_headline(ragged):
    intervals = [
        Interval("school 0", -0.2, -0.3, -0.1),
        Interval("school 1", 0.2, 0.1, 0.3),
        Interval("school 2", -0.1, -0.3, 0.1),
    ]
    pictures = replace(ragged.pictures, task_gains=[*intervals, None])
    first, second = pictures.task_sentences()
    assert first.startswith("1 of 3 tasks")
    assert "school 0" in second
    assert "school 2" not in second
    (sentence,) = replace(pictures, task_gains=intervals[1:]).task_sentences()
    assert "school 2" in sentence


class Page(HTMLParser):
    """Collects ids, images and external resources of the page."""

    def __init__(self, text):
        super().__init__()
        self.ids = []
        self.labels = []
        self.addresses = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "svg":
            assert values["role"] == "img"
            self.labels.append(values["aria-label"])
        for name in ("src", "href", "xlink:href"):
            if name in values:
                self.addresses.append(values[name])


@pytest.mark.slow
def test_the_page_is_one_file_with_alternative_texts_for_its_figures(ragged):
    page = Page(ragged.page())
    assert len(page.ids) == len(set(page.ids))
    assert len(page.labels) > 10
    assert all(len(label) > 20 for label in page.labels)
    elsewhere = [a for a in page.addresses if not a.startswith(("#", "data:"))]
    assert elsewhere == []
    targets = {a[1:] for a in page.addresses if a.startswith("#")}
    assert targets <= set(page.ids)


@pytest.mark.rendered
def test_text_on_the_page_keeps_its_digits(ragged):
    interval = Interval("vs. separate models", 0.12345, -0.01234, 0.2)
    pictures = replace(ragged.pictures, measure="AUC", gains=[interval])
    picture = replace(pictures.verdict(), title="gain of $0 or $1")
    page = inline_svg(picture, "verdict")
    assert "0.123 (-0.012 to 0.200)" in re.sub(r"<[^>]*>", "", page)
    # Files have a title, in which dollars are no formula; pages have their own.
    assert f">{picture.title}</text>" in svg(picture)
    assert picture.title not in re.sub(r"<[^>]*>", "", page)


@pytest.mark.slow
def test_saved_figures_show_the_numbers_of_the_result(labels, tmp_path):
    folder = labels.save(tmp_path / "out")
    stored = read_pictures(folder)
    for kind in set(PICTURES) - {"curve", "gains"}:
        drawn = stored.of_kind(kind)
        assert type(drawn) is type(labels.pictures.of_kind(kind))
        assert drawn.alt == labels.pictures.of_kind(kind).alt
    assert_allclose(
        stored.held_out.predicted["separate"],
        labels.held_out.predicted["separate"],
        rtol=1e-6,
    )


@pytest.mark.cover
@pytest.mark.slow
@pytest.mark.parametrize("file", ["pictures.json", "predictions.npz"])
@pytest.mark.parametrize("content", ["", "{}", '{"tasks": 3}'])
def test_damaged_figure_files_are_rejected(labels, tmp_path, file, content):
    folder = labels.save(tmp_path / "out")
    (folder / file).write_text(content)
    with pytest.raises(DataError):
        read_pictures(folder)


@pytest.mark.slow
def test_predictions_of_other_tasks_are_rejected(labels, tmp_path):
    folder = labels.save(tmp_path / "out")
    other = replace(labels.held_out, tasks=labels.held_out.tasks + 1)
    (folder / "predictions.npz").write_bytes(other.dump())
    with pytest.raises(DataError):
        read_pictures(folder)


def test_gains_that_round_to_zero_have_no_sign():
    assert format_gain(-0.0001, "nMSE") == "0.0%"
    assert format_gain(-0.0001, "AUC") == "0.000"
    assert format_gain(-0.0732, "nMSE") == "-7.3%"
    assert format_gain(0.141, "nMSE") == "14%"
    assert (format_gain(0.0994, "nMSE"), format_gain(0.0996, "nMSE")) == ("9.9%", "10%")


def test_unknown_kinds_and_tasks_are_rejected(labels):
    with pytest.raises(UnknownNameError):
        labels.pictures.of_kind("pie")
    with pytest.raises(UnknownNameError):
        labels.plot_tasks(tasks=["seaa"])
    with pytest.raises(UserError):
        labels.pictures.of_kind("verdict", ["sea"])
