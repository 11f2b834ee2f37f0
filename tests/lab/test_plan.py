"""Plans: their jobs, shared results, and reasons for recomputing."""

import dataclasses
import json

import pytest

from mtlrun.engine.environment import private_path
from mtlrun.engine.plan import job_states, rerun_reasons
from mtlrun.engine.record import ResultKey
from mtlrun.engine.run import missing_jobs, run
from mtlrun.errors import ConfigError
from mtlrun.lab.experiment.load import load_experiment
from mtlrun.lab.plan import plan

SHARED = """\
  - label: same search
    estimator: "lab.models:Ridge"
    params: {slow: 0.0}
    grid: {alpha: [0.1, 10]}
    select_with: {warm_start: false}
  - label: same search again
    estimator: "lab.models:Ridge"
    params: {slow: 0.001}
    grid: {alpha: [0.1, 10]}
    select_with: {slow: 0.0, warm_start: false}
"""


def keys(run_plan):
    return {name: key for key, name in run_plan.names.items()}


def states(run_plan):
    return [state.name for state in job_states(run_plan)]


def left(run_plan):
    return missing_jobs(run_plan, run_plan.store())


def test_jobs_have_the_order_of_the_table(lab):
    run_plan = lab.plan()
    assert [row.name for row in run_plan.rows] == [
        "simulated-rmtl/strong/trial 0",
        "simulated-rmtl/strong/trial 1",
        "simulated-rmtl/weak/trial 0",
        "simulated-rmtl/weak/trial 1",
    ]
    assert [run_plan.names[fold.key] for fold in run_plan.rows[0].job.folds] == [
        "simulated-rmtl/strong/trial 0 (search, fold 1 of 2)",
        "simulated-rmtl/strong/trial 0 (search, fold 2 of 2)",
    ]
    assert states(run_plan) == ["missing"] * 4
    assert run_plan.rows[2].job.folds == ()


def test_a_result_key_survives_a_round_trip(lab):
    run_plan = lab.plan()
    entries = json.loads(json.dumps(run_plan.run_json()))["cells"]
    names = [field.name for field in dataclasses.fields(ResultKey)]
    assert [ResultKey.read(entry) for entry in entries] == [
        ResultKey(**{name: getattr(row, name) for name in names})
        for row in run_plan.rows
    ]
    good = entries[0]
    for wrong in (
        {"key": "../x"},
        {"key": 1},
        {"trial": True},
        {"trial": 1.5},
        {"method": None},
        {"reading": 3},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ResultKey.read({**good, **wrong})


def test_identical_searches_are_one_job(lab):
    run_plan = lab.plan(lab.tiny + SHARED)
    by_method = {row.method: row.job for row in run_plan.rows if row.trial == 0}
    folds = {
        method: {fold.key for fold in job.folds} for method, job in by_method.items()
    }
    assert folds["same search"] == folds["same search again"]
    assert not folds["strong"] & folds["same search"]
    assert len(left(run_plan)[1]) == 8
    assert by_method["same search"].key != by_method["same search again"].key


def test_adding_a_method_or_a_data_set_changes_no_other_job(lab):
    before = keys(lab.plan())
    extended = lab.tiny.replace("datasets: [", "datasets: [{id: gauss2d, n: 40}, ") + (
        '  - {label: third, estimator: "lab.models:Noisy"}\n'
    )
    assert before.items() <= keys(lab.plan(extended)).items()


def test_the_key_contains_all_that_counts_but_no_label(lab):
    base = {row.trial: row.job.key for row in lab.plan().rows if row.method == "weak"}
    renamed = {
        row.trial: row.job.key
        for row in lab.plan(lab.tiny.replace("weak", "frail")).rows
        if row.method == "frail"
    }
    assert renamed == base
    for old, new in (
        ("alpha: 0.001", "alpha: 0.002"),
        ("train: 0.5", "train: 0.4"),
        ("metrics: [auc]", "metrics: [auc, f1]"),
        ("metrics: [auc]", "metrics: [auc]\naverage: sample"),
        ("metrics: [auc]", "metrics: [auc]\nseed: 1"),
        ("metrics: [auc]", "metrics: [auc]\ntiming: {repeats: 1}"),
        ("n: 60", "n: 61"),
    ):
        changed = [
            row.job.key
            for row in lab.plan(lab.tiny.replace(old, new)).rows
            if row.method == "weak"
        ]
        assert not set(changed) & set(base.values()), new


def test_a_profile_affects_keys_only_by_its_changes(lab):
    text = lab.tiny + "profiles: {quick: {}, other: {split: {train: 0.4}}}\n"
    assert keys(lab.plan(text)) == keys(lab.plan(text, profile="full"))
    assert not set(keys(lab.plan(text)).values()) & set(
        keys(lab.plan(text, profile="other")).values()
    )


def test_limits_and_deviations_are_not_part_of_the_key(lab):
    assert keys(lab.plan()) == keys(
        lab.plan(lab.tiny + "limits: {seconds: 5}\ndeviations: [some]\n")
    )


def test_estimators_and_splits_have_their_own_seeds(lab):
    text = lab.tiny + (
        '  - {label: noisy, estimator: "lab.models:Noisy"}\n'
        '  - {label: set, estimator: "lab.models:Noisy", params: {random_state: 5}}\n'
    )
    cells = [row.job for row in lab.plan(text).rows]
    seeds = [job.method.params.get("random_state") for job in cells]
    assert seeds[:4] == [None] * 4
    assert len(set(seeds[4:6])) == 2
    assert seeds[6:] == [5, 5]
    assert [job.split.seed for job in cells[:2]] == [
        job.split.seed for job in cells[2:4]
    ]
    folds = lab.plan(
        lab.tiny.replace("kind: random, train: 0.5, trials: 2", "kind: kfold, folds: 3")
    ).rows
    assert len({row.job.split.seed for row in folds}) == 1
    assert [row.trial for row in folds] == [0, 1, 2, 0, 1, 2]


def test_nested_estimators_are_resolved_and_their_versions_count(lab):
    text = lab.tiny + (
        '  - label: blocks\n    estimator: "lab.models:Blocks"\n'
        "    params: {base: {estimator: SparseMTL, params: {fit_intercept: false}}}\n"
        "    grid: {base__alpha: [1, 2]}\n    select_with: {base__tol: 0.1}\n"
    )
    run_plan = lab.plan(text)
    job = next(row.job for row in run_plan.rows if row.method == "blocks")
    base = {"estimator": "SparseMTL", "params": {"fit_intercept": False}}
    assert job.method.params["base"] == base
    assert job.folds[0].method.params["base"]["params"] == {
        "fit_intercept": False,
        "tol": 0.1,
    }
    assert {"lab/models.py", "SparseMTL", "generator:rmtl", "protocol"} <= set(
        job.versions
    )


def test_only_selects_jobs(lab):
    assert [c.name for c in lab.plan(only=["method=str*,trial=1"]).wanted] == [
        "simulated-rmtl/strong/trial 1"
    ]
    assert len(lab.plan(only=["method=weak", "method=strong"]).wanted) == 4
    assert len(lab.plan(only=["method=weak"]).rows) == 4
    with pytest.raises(ConfigError, match=r"--only method=stron[^\0]*'strong'\?"):
        lab.plan(only=["method=stron"])
    with pytest.raises(ConfigError, match="unknown key 'solver'"):
        lab.plan(only=["solver=x"])
    with pytest.raises(ConfigError, match="must be key=pattern"):
        lab.plan(only=["weak"])


def test_an_unknown_option_of_a_data_set_names_the_file(lab):
    with pytest.raises(ConfigError, match=r"tiny\.yaml:5:39: .*simulated-rmtl.*'rows'"):
        lab.plan(lab.tiny.replace("n: 60", "rows: 60"))


def test_outdated_jobs_have_a_reason(lab):
    run(lab.plan())
    reasons = {}
    for name, text in {
        "value": lab.tiny.replace("alpha: 0.001", "alpha: 0.002"),
        "grid": lab.tiny.replace("[0.1, 10]", "[0.1, 20]"),
        "data": lab.tiny.replace("n: 60", "n: 62"),
    }.items():
        run_plan = lab.plan(text)
        reasons[name] = rerun_reasons(run_plan, job_states(run_plan))
    assert reasons["value"] == [
        "rerun simulated-rmtl/weak/2 trials: method.params.alpha 0.001 -> 0.002"
    ]
    assert reasons["grid"] == [
        "rerun simulated-rmtl/strong/2 trials: search.grid.alpha [0.1, 10] -> [0.1, 20]"
    ]
    assert reasons["data"] == [
        "rerun simulated-rmtl/strong/2 trials: data changed; dataset.options.n 60 -> 62",
        "rerun simulated-rmtl/weak/2 trials: data changed; dataset.options.n 60 -> 62",
    ]


def test_an_edited_comment_reruns_nothing_and_edited_arithmetic_reruns_its_users(lab):
    run(lab.plan())
    lab.helper.write_text("# why\n" + lab.helper.read_text())
    assert left(lab.plan()) == ([], [])
    lab.helper.write_text(lab.helper.read_text().replace("1.0 *", "1.5 *"))
    sklearn = lab.tiny + '  - {label: other, estimator: "sklearn.linear_model:Ridge"}\n'
    run_plan = lab.plan(sklearn)
    assert len(left(run_plan)[1]) == 4
    actual = {
        (row.method, state)
        for row, state in zip(run_plan.rows, states(run_plan), strict=True)
    }
    assert actual == {
        ("strong", "outdated"),
        ("weak", "outdated"),
        ("other", "missing"),
    }
    assert (
        rerun_reasons(run_plan, job_states(run_plan))[0]
        == "rerun simulated-rmtl/strong/2 trials: lab/helper.py changed"
    )


def test_run_json_lists_the_complete_plan(lab):
    text = lab.tiny + "profiles: {quick: {split: {trials: 1}}}\n"
    experiment = load_experiment(lab.write(text), overrides=["seed=4"])
    facts = plan(experiment, output=lab.output, only=["method=weak"]).run_json()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["schema"], facts["id"], facts["profile"], facts["seed"]) == (
        2,
        "lab/tiny",
        "quick",
        4,
    )
    assert facts["methods"] == ["strong", "weak"]
    assert [(c["dataset"], c["method"], c["trial"]) for c in facts["cells"]] == [
        ("simulated-rmtl", "strong", 0),
        ("simulated-rmtl", "weak", 0),
    ]
    data = facts["datasets"]["simulated-rmtl"]
    assert data["simulated"] is True
    assert data["options"] == {"n": 60, "d": 8, "m": 6, "rank": 2}
    assert len(data["fingerprint"]) == 64
    assert facts["command"] == "mtlrun reproduce tiny.yaml --profile quick --set seed=4"
    assert facts["paper_datasets"] == ["simulated-rmtl"]


def test_the_command_names_a_data_folder_only_if_an_option_set_it(
    lab, tmp_path, monkeypatch
):
    def command():
        return plan(
            load_experiment(lab.write(lab.tiny)), output=lab.output, data_dir=tmp_path
        ).run_json()["command"]

    monkeypatch.delenv("MTLRUN_DATA", raising=False)
    assert command().endswith(f" --data-dir {private_path(str(tmp_path))}")
    monkeypatch.setenv("MTLRUN_DATA", str(tmp_path))
    assert "--data-dir" not in command()


def test_two_data_sets_with_the_same_id_need_labels(lab):
    text = lab.tiny.replace(
        f"[{lab.data}]", f"[{lab.data}, {{id: simulated-rmtl, label: larger, n: 80}}]"
    )
    assert {row.dataset for row in lab.plan(text).rows} == {"simulated-rmtl", "larger"}
    with pytest.raises(ConfigError, match="'simulated-rmtl'"):
        lab.plan(text.replace("label: larger, ", ""))


def test_profiles_with_the_same_content_share_their_jobs(lab):
    text = (
        lab.tiny
        + "profiles:\n  demo: {claims: []}\n  smoke: {split: {trials: 1}, seed: 5}\n"
    )
    full, demo, smoke = (
        {row.job.key for row in lab.plan(text, profile=name).rows}
        for name in ("full", "demo", "smoke")
    )
    assert full == demo != smoke


@pytest.mark.slow
def test_an_up_to_date_experiment_is_checked_without_importing_solvers(lab):
    methods = """\
  - {label: one, estimator: RobustMTL, grid: {lam: [0.1, 1]}}
  - {label: measured, estimator: "sklearn.linear_model:RidgeCV"}
"""
    path = lab.write(lab.tiny.partition("  - label: strong")[0] + methods)
    script = f"""
        import sys
        from mtlrun.lab.experiment.load import load_experiment
        from mtlrun.lab.plan import plan
        plan(load_experiment({str(path)!r}))
        heavy = ("numpy", "sklearn", "mtlrun.solvers", "mtlrun.estimators.robust")
        print([n for n in sys.modules if n.startswith(heavy)])
    """
    process = lab.python(script, MTLRUN_DATA=str(lab.root))
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.strip() == "[]"


def test_keys_never_change(lab):
    # To the byte, on every machine: a change here makes all stored results outdated.
    text = lab.tiny.partition("  - label: strong")[0]
    fit = (
        lab.plan(
            text + "  - {label: one, estimator: RobustMTL, grid: {lam: [0.1, 1]}}\n"
        )
        .rows[0]
        .job
    )
    measured = lab.plan(
        f"schema: 1\nid: lab/facts\ntitle: Facts\nkind: inspect\ndatasets: [{lab.data}]\nmetrics: [n]\n"
        "methods: [{label: facts, measure: data-set-statistics}]\n"
    ).rows[0]
    assert [fit.key, fit.folds[0].key, measured.job.key] == [
        "0bd59860d79dda18367face831f74297412b6abd32dac8240b16b016b19f373e",
        "737015cce7075c3110763490d4e1c50e21affeb314b8a420affb35b97b41a3e9",
        "7b3094b828ef529369127bba851c8808d73b6fb15ab60b5b179d3b2654136e49",
    ]
