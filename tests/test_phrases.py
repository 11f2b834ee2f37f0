"""Tests check the kind and remedy of a message, not its words: the number of tests that
quote long phrases only falls.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
#: Tests that quote a phrase of at least `MIN_WORDS` words. Lower it when it has fallen.
MAX_TESTS = 368
MIN_WORDS = 4


def expected_nodes(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what a test expects: assertions, patterns and parameters."""
    yield from function.decorator_list
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            yield node.test
        elif isinstance(node, ast.Call):
            yield from (word.value for word in node.keywords if word.arg == "match")
            if isinstance(node.func, ast.Name) and node.func.id == "lacking":
                yield from node.args


def has_phrase(function: ast.FunctionDef) -> bool:
    """Return whether a test expects a text of several words."""
    for expected in expected_nodes(function):
        for node in ast.walk(expected):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words = [word.strip(".,:;()") for word in node.value.split()]
                if sum(map(str.isalpha, words)) >= MIN_WORDS:
                    return True
    return False


def functions_of(source: str) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_phrases_are_recognized_wherever_a_test_expects_them():
    source = """
def test_a():
    assert "no such file in there" in error

@pytest.mark.parametrize("text", ["it is not a file: x"])
def test_b(text): ...

def test_c():
    with pytest.raises(ValueError, match="the file is not there"): ...

def test_d():
    run("this phrase of words is given")
    assert lacking(error, "no such file", "t.csv:3:1") == []
"""
    assert [has_phrase(test) for test in functions_of(source)] == [
        True,
        True,
        True,
        False,
    ]


@pytest.mark.slow
def test_no_more_tests_quote_messages():
    n_tests = sum(
        has_phrase(test)
        for path in TESTS.rglob("test_*.py")
        for test in functions_of(path.read_text("utf-8"))
    )
    assert n_tests <= MAX_TESTS, "check the kind and the remedy: fixture `lacking`"
