"""The audit of the stored runs gives the values that can be read by eye."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from mtlrun.errors import ConfigError
from mtlrun.lab.report.run import read_run
from mtlrun.papers.mtsvm.audit import DCD, KERNEL, curve_phases, stored_runs


def test_the_numbers_of_gauss2d_are_those_of_the_files():
    values = stored_runs(None, seed=0, data_set="gauss2d", optimum=1466.56).values
    assert values["dcd_difference"] == 2.91e-11
    assert values["kernel_difference"] == 0.000174
    assert values["speed_up"] == pytest.approx(0.462 / 0.001)  # Both at 1020 or below
    assert values["speed_up_precision"] == pytest.approx(1020 / 1466.56)
    assert values["speed_up_useful"] == pytest.approx(0.774 / 0.017)
    assert values["orders_at_one_time"] == pytest.approx(np.log10(1440 / 2.91e-11))
    assert values["speed_up_rows"] == pytest.approx(1157.04 / 2.129)
    assert values["speed_up_all_rows"] == pytest.approx(3998 / 13.589)
    # From 1 to 8 of 17 ms DCD falls from 1020 to 277; the kernel solver falls from 1440
    # at 16 ms to 1110 at 79.
    mean = np.log10(1020 / 2.91e-11) / np.log10(17)
    assert values["dcd_first_pace"] == pytest.approx(np.log10(1020 / 277) / mean)
    mean = np.log10(1440 / 0.000174) / np.log10(0.774 / 0.016)
    assert values["kernel_first_pace"] == pytest.approx(np.log10(1440 / 1110) / mean)
    steepest = (
        np.log10(510 / 0.000174) / np.log10(0.774 / 0.462),
        np.log10(277 / 2.91e-11) / np.log10(17 / 8),
    )
    assert values["steepness"] == pytest.approx(steepest[0] / steepest[1])
    assert values["mean_steepness"] == pytest.approx(
        mean / (np.log10(1020 / 2.91e-11) / np.log10(17))
    )
    # In a tenth of its 774 ms the kernel solver falls from 1440 to 1110; DCD does not
    # fall in a tenth of its 17 ms.
    assert values["first_tenth"] == pytest.approx(
        10 * np.log10(1440 / 1110) / np.log10(1440 / 0.000174)
    )
    assert values["first_pace"] == values["dcd_first_pace"]
    assert values["kernel_rows"] == 200_000


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the curves of DCD and of the kernel solver to a
    file and returns its path.
    """

    def written(name, *, dcd, kernel):
        curves = []
        for method, (x, y) in {DCD: dcd, KERNEL: kernel}.items():
            curves.append({"dataset": "made", "method": method, "x": x, "y": y})
        path = tmp_path / name
        path.write_text(json.dumps({"curves": curves}))
        return str(path)

    return written


def test_a_made_up_pair_of_runs_gives_the_expected_numbers(write):
    files = (
        write(
            "fig1.yaml",
            dcd=([1.0, 4.0], [10.0, 1.0]),
            kernel=([2.0, 6.0, 8.0], [100.0, 5.0, 2.0]),
        ),
        write(
            "fig2.yaml",
            dcd=([10.0, 20.0], [2.0, 3.0]),
            kernel=([10.0, 30.0], [1.0, 99.0]),
        ),
    )
    values = stored_runs(
        None, seed=0, data_set="made", optimum=1e4, published=files
    ).values
    assert values == {
        "dcd_difference": 1.0,
        "kernel_difference": 2.0,
        "orders_at_one_time": 2.0,  # At 4 s: 1 against 100
        "times_more_precise": 1.0,
        "speed_up": 6.0,  # To 10: 6 s against 1 s
        "speed_up_precision": 1e-3,
        "speed_up_useful": 6.0,
        "speed_up_rows": 0.5,
        "speed_up_all_rows": 0.5,
        "dcd_first_pace": pytest.approx(1.0),  # All in one step
        "kernel_first_pace": pytest.approx(1.0),
        "first_pace": pytest.approx(1.0),
        "first_tenth": 0.0,  # Before 0.4 and 0.8 s only the start values are known.
        "mean_steepness": pytest.approx(np.log10(50)),
        "steepness": pytest.approx(np.log10(2.5) / np.log10(8 / 6) * np.log10(4)),
        "exponent_difference": pytest.approx(np.nan, nan_ok=True),
        "kernel_rows": 10.0,
    }
    far = stored_runs(
        None, seed=0, data_set="made", optimum=1.0, published=files
    ).values
    assert np.isnan(far["speed_up_useful"])


def test_data_sets_without_curves_are_rejected():
    with pytest.raises(ValueError, match="0 curves of 'splice'"):
        stored_runs(None, seed=0, data_set="splice", optimum=1.0)
    with pytest.raises(ConfigError, match="of published numbers"):
        stored_runs(
            None,
            seed=0,
            data_set="mnist",
            optimum=1.0,
            published=("mtsvm/none.yaml", "mtsvm/none.yaml"),
        )


@pytest.fixture
def phases(write):
    """Return a function that computes the values of two curves."""

    def of_curves(**curves):
        file = write("fig1.yaml", **curves)
        options = {"data_set": "made", "kernel": KERNEL, "published": file}
        return curve_phases(None, seed=0, **options).values

    return of_curves


def test_a_slow_first_phase_of_our_curves_has_a_small_pace(phases):
    # Two orders of magnitude in a hundredfold time: first none, then two, or one and
    # one.
    slow = ([1.0, 10.0, 100.0], [100.0, 100.0, 1.0])
    steady = ([1.0, 10.0, 100.0], [100.0, 10.0, 1.0])
    values = phases(dcd=slow, kernel=steady)
    assert values["dcd_first_pace"] == 0.0
    assert values["kernel_first_pace"] == pytest.approx(1.0)
    assert values["first_pace"] == pytest.approx(1.0)
    assert values["steepness"] == pytest.approx(0.5)
    assert values["mean_steepness"] == pytest.approx(1.0)
    # A tenth of the time is 10 s, in which the second curve gains half.
    assert values["dcd_first_tenth"] == 0.0
    assert values["kernel_first_tenth"] == pytest.approx(5.0)


def test_the_best_value_so_far_counts_in_our_curves(phases):
    steady = ([1.0, 10.0, 100.0], [100.0, 10.0, 1.0])
    worse = ([1.0, 10.0, 20.0, 100.0], [100.0, 10.0, 90.0, 1.0])
    values = phases(dcd=steady, kernel=worse)
    assert values["kernel_first_pace"] == pytest.approx(1.0)
    # One order of magnitude from 20 to 100 s: the value at 20 s is no better than before.
    assert values["steepness"] == pytest.approx(1 / np.log10(5))
    assert values["mean_steepness"] == pytest.approx(1.0)


def test_a_short_curve_has_no_first_phase(phases):
    steady = ([1.0, 10.0, 100.0], [100.0, 10.0, 1.0])
    short = ([20.0, 100.0], [100.0, 1.0])
    values = phases(dcd=steady, kernel=short)
    assert values["dcd_first_pace"] == pytest.approx(1.0)
    assert np.isnan(values["kernel_first_pace"])
    assert np.isnan(values["first_pace"])


def test_a_curve_that_is_not_stored_is_named():
    with pytest.raises(ValueError, match="no curve of Newton"):
        curve_phases(None, seed=0, data_set="mnist", kernel="Newton")


def test_the_stored_curves_are_those_of_the_committed_run():
    root = Path(__file__).parents[3]
    script = runpy.run_path(str(root / "scripts" / "mtsvm_curves.py"))
    text = script["curves_text"](read_run(root / "results/mtsvm/fig1/quick"))
    assert text == (root / "configs/mtsvm/curves/fig1.yaml").read_text(encoding="utf-8")
