"""The reference: every public name shows an example with what comes out, a type for every argument, and a whole first sentence."""

import importlib.util
import inspect
import re

import pytest
from pages import ROOT

import evenscore as es

spec = importlib.util.spec_from_file_location("reference_types", ROOT / "docs" / "reference_types.py")
types = importlib.util.module_from_spec(spec)
spec.loader.exec_module(types)


@pytest.mark.parametrize("name", es.__all__)
def test_a_public_name_has_an_example_and_a_summary(name):
    text = inspect.getdoc(getattr(es, name))
    example = text.split("Examples\n--------\n")[1]
    lines = example.splitlines()
    assert any(not line.startswith((">>> ", "... ")) and line.strip() for line in lines), "it shows what comes out"
    summary = text.split("\n\n")[0].replace("\n", " ")
    first = re.split(r"(?<=\.)\s", summary)[0]
    assert first.rstrip().endswith((".", ":")) and first.count("(") == first.count(")"), first


@pytest.mark.parametrize("name", [name for name in es.__all__ if name.islower()])
def test_every_argument_has_a_type(name):
    function = getattr(es, name)
    untyped = [parameter for parameter in inspect.signature(function).parameters if not types.type_text(function, parameter)]
    assert untyped == []
    assert inspect.signature(function).return_annotation not in (inspect.Signature.empty, "None")


def documented(name):
    """A public name, and the methods of a class."""
    thing = getattr(es, name)
    methods = inspect.getmembers(thing, callable) if inspect.isclass(thing) else []
    return [thing, *(method for own, method in methods if not own.startswith("_"))]


@pytest.mark.parametrize("name", es.__all__)
def test_prose_is_not_taken_for_an_argument(name):
    """What stands below the arguments has a heading of its own."""
    for text in (inspect.getdoc(thing) or "" for thing in documented(name)):
        for section in re.findall(r"Parameters\n-+\n(.*?)(?=\n\w+\n-+\n|\Z)", text, re.DOTALL):
            odd = [
                line
                for line in section.splitlines()
                if re.match(r"\S", line) and not re.match(r"\*{0,2}\w+(, \*{0,2}\w+)*( : |$)", line)
            ]
            assert odd == []
    assert all("<Unsaid" not in str(inspect.signature(thing)) for thing in [getattr(es, name)] if inspect.isfunction(thing))


def test_types_are_put_beside_arguments():
    lines = inspect.getdoc(es.parity_test).splitlines()
    types.add_types(None, "function", "evenscore.parity_test", es.parity_test, None, lines)
    assert "alpha, seed : float, int" in lines and "tolerance : float or None" in lines
    assert types.plain_signature(None, "class", "", es.ParityTest, None, "(a, b)", None) == ("", None)
    assert types.plain_signature(None, "class", "", es.Lattice, None, "(a, b)", None)[0].startswith("(low, high, *, cells=512")
