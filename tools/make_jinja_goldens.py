#!/usr/bin/env python3
"""Writes tests/golden/chat/expressions.json: small templates and what Jinja2 makes of them.

Jinja2 is set up as chat templates expect it. Run with a Python that has jinja2:
    python3 tools/make_jinja_goldens.py
"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 11, 21, 14, 5, 9)

CONTEXT = {
    "name": "Ada", "empty": "", "text": "Hello, World", "lines": "one\ntwo\n\nthree",
    "spaces": "  padded\t\n", "unicode": "h\u00e9llo w\u00f6rld \u65e5\u672c \U0001f600", "quote": "it's \"so\"",
    "n": 7, "zero": 0, "neg": -3, "f": 2.5, "big": 1e20, "small": 1e-7, "whole": 3.0, "t": True,
    "no": False, "nil": None, "list": [3, 1, 2], "words": ["pear", "Apple", "fig"], "nested": [[1, 2], [3, [4]]],
    "mixed": [1, "a", None, True, 2.5, {"k": []}], "nothing": [], "dict": {"b": 2, "a": 1, "C": 3},
    "items": {"items": 1, "get": 2}, "deep": {"x": {"y": [10, {"z": "end"}]}},
    "people": [{"name": "Bob", "age": 30, "tags": ["x"]}, {"name": "eve", "age": 25},
               {"name": "Cy", "age": 30, "tags": []}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Yo", "tool_calls": [
                     {"function": {"name": "f", "arguments": {"a": 1, "b": [True, None, "\u00e9<&>'"]}}}]}],
}


HERE = pathlib.Path(__file__).parent
EXPRESSIONS = HERE / "jinja_expressions.txt"  # one a line, each printed by itself
# Whole templates, separated by lines of "====". <CR>, <SP> and <NL> stand for characters that editors
# remove.
STATEMENTS = HERE / "jinja_statements.txt"


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

        def _pass(self, caller):
            return caller()

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


def render(env, source):
    try:
        return {"rendered": env.from_string(source).render(**CONTEXT)}
    except Exception as error:  # every kind of failure is one thing: an error
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    env = environment()
    cases = []
    for expression in EXPRESSIONS.read_text().splitlines():
        source = "{{ " + expression + " }}"
        cases.append({"template": source, **render(env, source)})
    for source in STATEMENTS.read_text().split("\n====\n"):
        source = source.replace("<CR>", "\r").replace("<SP>", " ").replace("<NL>", "\n")
        cases.append({"template": source, **render(env, source)})
    # Addresses of objects differ from run to run.
    cases = [case for case in cases if " at 0x" not in case.get("rendered", "")]
    out = HERE.parent / "tests" / "golden" / "chat" / "expressions.json"
    data = {"context": CONTEXT, "now": NOW.isoformat(), "cases": cases}
    out.write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n")
    print(len(cases), "cases,", sum("error" in case for case in cases), "errors")


main()
