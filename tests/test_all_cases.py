"""A test of all cases of a table fails if one of them does, and names it."""

import pytest
from all_cases import all_cases, check_each


@all_cases(("number", "square"), [(2, 4), (3, 10), (4, 16), (5, "25")])
def compare_squares(number, square):
    assert number * number == square


def test_each_case_that_fails_is_named_and_no_other():
    with pytest.raises(AssertionError) as caught:
        compare_squares()
    lines = [line for line in str(caught.value).splitlines() if "case" in line]
    assert [line.partition(":")[0] for line in lines] == [
        "case 2, number=3, square=10",
        "case 4, number=5, square='25'",
    ]


def test_errors_and_missing_errors_are_failures_of_their_case():
    @all_cases("value", [1, None, "x"])
    def expect_a_value_error(value):
        with pytest.raises(ValueError):
            int(value)

    with pytest.raises(AssertionError, match=r"case 1, value=1: .*\n.*case 2, value=N"):
        expect_a_value_error()


def test_a_skipped_case_skips_the_test_unless_another_fails():
    def check(number):
        if number == 1:
            pytest.skip("no data")
        assert number == 2

    check_each(check, {"second": {"number": 2}})
    with pytest.raises(pytest.skip.Exception, match="first: no data"):
        check_each(check, {"first": {"number": 1}, "second": {"number": 2}})
    with pytest.raises(AssertionError, match="third"):
        check_each(check, {"first": {"number": 1}, "third": {"number": 3}})


@all_cases("name", ["a.txt", "b.txt"])
def test_cases_share_the_fixtures_of_the_test(tmp_path, name):
    assert name == "a.txt" or (tmp_path / "a.txt").exists()
    (tmp_path / name).touch()
