"""In a notebook, every picture of a result appears below its cell."""

import matplotlib.pyplot as plt
import pytest

from mtlrun.show.canvas import STYLE, drawing_style
from mtlrun.show.drawing import draw
from mtlrun.show.pictures import Interval, ListPicture

START = """
import numpy as np, pandas as pd, mtlrun
rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
table["task"] = np.repeat(["x", "y", "z"], 20)
table["y"] = table.a + rng.normal(size=60)
result = mtlrun.compare(
    table, target="y", task="task", methods=["GraphMTL"], splits=3, folds=2, repeats=1
)
"""


@pytest.fixture
def not_interactive():
    plt.ioff()
    yield
    plt.ioff()
    plt.close("all")


def test_drawing_changes_no_other_settings(not_interactive):
    before = {name: plt.rcParams[name] for name in STYLE}
    with drawing_style():
        assert plt.rcParams["font.size"] == STYLE["font.size"]
        plt.ion()
    assert plt.isinteractive()
    assert {name: plt.rcParams[name] for name in STYLE} == before


def test_a_new_figure_may_turn_on_that_figures_are_shown(not_interactive):
    def first_figure(**options):
        # The first figure loads the backend, as in a notebook.
        plt.ion()
        return plt.figure(**options)

    intervals = [Interval("x", 0.1, 0.0, 0.2), Interval("y", 0.2, 0.1, 0.3)]
    draw(ListPicture("Gains", "gain", "nmse", intervals, 0.01), None, first_figure)
    assert plt.isinteractive()


def images(client, code):
    """Run a cell and return the number of images below it."""
    n_images = 0
    request = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=300)
        if message["parent_header"].get("msg_id") != request:
            continue
        content = message["content"]
        assert message["msg_type"] != "error", content
        if "image/png" in content.get("data", {}):
            n_images += 1
        if content.get("execution_state") == "idle":
            return n_images


@pytest.mark.slow
def test_each_cell_of_a_notebook_shows_its_picture():
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        assert images(client, START) == 0
        cells = ["result.plot_tasks();", "result.plot_heatmap();", "result.plot();"]
        assert [images(client, cell) for cell in cells] == [1, 1, 1]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
