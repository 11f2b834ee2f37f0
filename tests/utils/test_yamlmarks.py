"""YAML files: locations of all values, plain data only, errors with locations."""

import json

import pytest
import yaml
from all_cases import all_cases
from hypothesis import given
from hypothesis import strategies as st

from mtlrun.errors import ConfigError
from mtlrun.utils import yaml as yamlmarks
from mtlrun.utils.text import hidden
from mtlrun.utils.yaml import (
    Mark,
    Position,
    YamlProblem,
    load_file,
    load_text,
    nearest,
    render,
)


def test_keys_and_values_have_locations():
    document = load_text("a: 1\nb:\n  - {c: long word}\n", "f.yaml")
    assert document.data == {"a": 1, "b": [{"c": "long word"}]}
    assert nearest(document.places, ("b", 0, "c")) == Position(
        Mark(3, 6, 1), Mark(3, 9, 9)
    )
    assert nearest(document.places, ("b", 0, "gone")) == nearest(
        document.places, ("b", 0)
    )
    assert nearest(document.places, ("b", 0)) == Position(
        Mark(3, 5, 14), Mark(3, 5, 14)
    )


def test_scalars_follow_yaml_1_2():
    for text, value in [
        ("1e-3", 0.001),
        ("1.0e-3", 0.001),
        ("-5", -5),
        ("+.5", 0.5),
        ("3.", 3.0),
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("2015-01-01", "2015-01-01"),
        ("1:30", "1:30"),
        ("0o7", "0o7"),
        ("'1'", "1"),
        ("~", None),
        ("", None),
        ("10.1109/TNNLS.2015.2406759", "10.1109/TNNLS.2015.2406759"),
        ("LADM-DC-RMTL-10%", "LADM-DC-RMTL-10%"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ]:
        data = load_text(f"x: {text}\n", "f").data["x"]
        assert data == value
        assert type(data) is type(value)


GOLDEN = {
    "duplicate keys, all of them": (
        "a: 1\nb: {c: 1, c: 2}\na: 3\n",
        "f.yaml:2:11: duplicate key 'c'\n"
        "  1 | a: 1\n"
        "  2 | b: {c: 1, c: 2}\n"
        "                ^ first given in line 2\n"
        "f.yaml:3:1: duplicate key 'a'\n"
        "  2 | b: {c: 1, c: 2}\n"
        "  3 | a: 3\n"
        "      ^ first given in line 1",
    ),
    "tab": (
        "a:\n\tb: 1\n",
        "f.yaml:2:1: a tab where blanks are needed\n  1 | a:\n  2 |  b: 1\n      ^ indent with blanks",
    ),
    "unclosed list": (
        "a: [1, 2\nb: 3\n",
        "f.yaml:2:2: not valid YAML: expected ',' or ']', but got ':' while parsing a flow sequence\n"
        "  1 | a: [1, 2\n"
        "  2 | b: 3\n"
        "       ^",
    ),
    "tag": (
        "a: !!python/object/apply:os.system [echo]\n",
        "f.yaml:1:4: tags ('!...') are not supported\n"
        "  1 | a: !!python/object/apply:os.system [echo]\n"
        "         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ write plain values",
    ),
    "merge key and number as key": (
        "a: &x {b: 1}\nc: {<<: *x, 2: 3}\n",
        "f.yaml:2:5: merge keys ('<<') are not supported\n"
        "  1 | a: &x {b: 1}\n"
        "  2 | c: {<<: *x, 2: 3}\n"
        "          ^^ write the keys out\n"
        "f.yaml:2:13: a key must be a text\n"
        "  1 | a: &x {b: 1}\n"
        "  2 | c: {<<: *x, 2: 3}\n"
        "                  ^ put it in quotes",
    ),
    "infinite number": (
        "a: .inf\n",
        "f.yaml:1:4: numbers must be finite and of reasonable length\n  1 | a: .inf\n         ^^^^",
    ),
    "alias of itself": (
        "a: &x [*x]\n",
        "f.yaml:1:4: an alias that contains itself\n  1 | a: &x [*x]\n         ^^^^^^^",
    ),
    "two documents": (
        "a: 1\n---\nb: 1\n",
        "f.yaml:2:1: not valid YAML: but found another document expected a single document in the stream\n"
        "  1 | a: 1\n"
        "  2 | ---\n"
        "      ^",
    ),
}


def test_errors_are_located():
    for case in GOLDEN:
        text, expected = GOLDEN[case]
        with pytest.raises(ConfigError) as refused:
            load_text(text, "f.yaml")
        assert str(refused.value) == expected


def test_deep_nesting_is_rejected_before_recursion():
    with pytest.raises(ConfigError, match="more than 40 levels"):
        load_text("a: " + "[" * 100_000, "f")


@pytest.mark.slow
def test_exploding_aliases_are_rejected():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="more than 50000 values"):
        load_text("\n".join(lines), "f")


def test_unreadable_files_are_rejected(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        load_file(tmp_path)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(
        ConfigError, match=r"binary\.yaml:2:1: not UTF-8 text \(byte 0xff\)"
    ):
        load_file(binary)
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (yamlmarks.MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="more than 1000000 bytes"):
        load_file(big)


def test_a_byte_order_mark_is_accepted(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load_file(path).data == {"a": 1}


def test_long_lines_are_cut_around_the_location_and_long_lists_of_problems_are_counted():
    text = "\n" * 999 + f"a: {'x' * 300}here\n"
    document = load_text(text, "f")
    lines = render([YamlProblem(Mark(1000, 304, 4), "what")], document).splitlines()[1:]
    assert lines[1].endswith("here")
    assert len(lines[1]) <= 80
    assert len(lines[2]) <= 80
    assert lines[2].index("^") == lines[1].index("here")
    many = render([YamlProblem(Mark(1, i + 1), "what") for i in range(25)], document)
    assert many.endswith("5 more problems in f")


TEXTS = st.text(max_size=8).filter(lambda text: not hidden(text))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=20,
)


@all_cases(
    ("text", "complaint"),
    [
        (
            "a: 1\nb: x\x1b[31m\n",
            "f.yaml:2:5: the character \\x1b may not stand in YAML",
        ),
        ('a: "x\\e[31m"\n', "f.yaml:1:4: the invisible character \\x1b"),
        ('a: "\\ud800"\n', "f.yaml:1:4: the invisible character \\ud800"),
        ("a: \u202egnp.exe\n", "f.yaml:1:4: the invisible character \\u202e"),
        ('"a\\0": 1\n', "f.yaml:1:1: the invisible character \\x00"),
        ("a: \udcff\n", "f.yaml:1:4: the character \\udcff may not stand in YAML"),
    ],
)
def test_invisible_characters_are_rejected(text, complaint):
    with pytest.raises(ConfigError) as refused:
        load_text(text, "f.yaml")
    assert str(refused.value).splitlines()[0] == complaint


@given(PLAIN)
def test_json_is_accepted(data):
    text = json.dumps(data, ensure_ascii=False)
    try:
        reference = yaml.safe_load(
            text
        )  # PyYAML knows the characters that YAML does not allow.
    except yaml.YAMLError:
        return
    actual = load_text(text, "f").data
    assert actual == data or reference != data


@given(st.text(alphabet="ab:-[]{}&*!#'\"\n\t <>|%@,?\\0", max_size=60))
def test_any_text_is_read_or_rejected_with_a_location(text):
    refused = ""
    try:
        load_text(text, "f")
    except ConfigError as error:
        refused = str(error)
    assert not refused or refused.startswith("f:")
