"""Errors name arguments in Python and options on the command line."""

import inspect
import pickle

import pytest

import mtlrun
from mtlrun.errors import SHELL_ONLY, UserError, in_python, with_arguments
from mtlrun.model.fitted import Model


def test_an_option_becomes_the_matching_argument():
    for option, argument in [
        ("say --min-rows 4.", "say min_rows=4."),
        ("add --unseen mean to it", "add unseen='mean' to it"),
        ("add: --trust a.B --trust c.D", "add: trust=['a.B', 'c.D']"),
        ("add: --trust a.B", "add: trust='a.B'"),
        ("--drop 'two words,b' helps", "drop='two words,b' helps"),
        ("Add --calibrate, or not", "Add calibrate=True, or not"),
        ("Choose --group or --time.", "Choose group or time."),
        ("(for example --task school)", "(for example task='school')"),
        ("leave --also-grouped-by out.", "leave also_grouped_by out."),
        ("write `--task-type binary`", "write `task_type='binary'`"),
    ]:
        assert in_python(option) == argument


@pytest.mark.parametrize(
    "text",
    [
        "mtlrun predict takes --task COLUMN, or --task-name NAME for all rows",
        "--debug shows where it failed",
        "a value of -- or --1",
        "",
    ],
)
def test_commands_and_options_without_an_argument_are_kept(text):
    assert in_python(text) == text


def test_no_argument_of_a_public_function_is_confused_with_a_command_line_option():
    functions = [mtlrun.compare, mtlrun.reproduce, mtlrun.load_model, mtlrun.load_run]
    for function in [*functions, Model.predict_table]:
        names = {
            name.replace("_", "-") for name in inspect.signature(function).parameters
        }
        assert not names & SHELL_ONLY


@with_arguments
def refuse():
    raise UserError("no rows", "Say --min-rows 4.")


def test_an_error_from_a_public_function_keeps_its_options_for_the_command_line():
    with pytest.raises(UserError) as caught:
        refuse()
    assert caught.value.remedy == "Say --min-rows 4."
    assert "min_rows=4" in str(caught.value)
    assert "--" not in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).remedy == caught.value.remedy
