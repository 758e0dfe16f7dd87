import re
import tomllib

import pytest

import evenscore as es
from evenscore.commands.configuration import KEYS, quoted, read_settings, template


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\nscor = 's'\n", "[data] unknown key 'scor'; did you mean score? (known: path, score, group,"),
        ("[dat]\nscore = 's'\n", "unknown key 'dat'; did you mean data?"),
        ("[test]\ntolerance = '2 %'\n", "[test] tolerance must be a number, not '2 %'"),
        ("[test]\ntolerance = true\n", "[test] tolerance must be a number, not True"),
        ("[test]\nrepair = 1\n", "[test] repair must be true or false, not 1"),
        ("[data]\nattributes = 'g'\n", "[data] attributes must be a list, not 'g'"),
        ("[data]\ncells = 1.5\n", "[data] cells must be a whole number, not 1.5"),
        ("[gate\n", "is not valid TOML"),
        ("score = 's'\n", "unknown key 'score'"),
        ("data = 1\n", "data must be a section, written [data]"),
    ],
)
def test_bad_settings(tmp_path, text, message):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(es.EvenscoreError, match=re.escape(message)):
        read_settings(tmp_path / "a.toml")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(es.FileError, match="cannot read"):
        read_settings(tmp_path / "a.toml")


def test_the_template_with_every_comment_taken_away_is_valid(tmp_path):
    """What stands in comments is as right as what does not, apart from the ways of saying one thing twice."""
    text = template(tolerance=0.02, path="a.csv", score="s", outcome="y", group="g", user=None)
    bare = re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)
    (tmp_path / "a.toml").write_text(bare)
    found = read_settings(tmp_path / "a.toml")
    assert found["data"]["path"] == str(tmp_path / "a.csv") and found["test"]["tolerance"] == 0.02
    assert found["data"]["attributes"] == ["gender", ["gender", "age_band"]] and found["output"]["report"] == str(
        tmp_path / "audit.html"
    )


def test_every_setting_is_an_option():
    from evenscore.commands.audit_command import audit
    from evenscore.commands.settings import RENAMED

    options = {parameter.name for parameter in audit.params}
    for section, keys in KEYS.items():
        for key in keys:
            assert key == "path" or RENAMED.get((section, key), key) in options, key


def test_settings_hold_any_column_name():
    for name in ('a "quoted" one', "back\\slash", "tab\tand\nline", "ünï", "\x00\x1f"):
        assert tomllib.loads(f"x = {quoted(name)}")["x"] == name
