"""Reads what an audit says in text, and lists what it says without having seen it; ``json_checker`` does so for the JSON."""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from generated_audits import Case, Told
from json_checker import is_shown, json_complaints, label_text

NUMBER = re.compile(r"(?<![\w.])[-+±−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?%)?(?![\w])")
# Long lists would hold every number; sentences are about what is not in them, but for the width of a band.
LISTS = ("points", "curves", "calibrator", "versions", "sources")
# What is said of the method and not of the data.
OF_THE_METHOD = re.compile(
    r"with probability 0\.8|fewer than (?:10|20|30)\b|at least (?:10|20) are needed|have 10 effective|0/1|0 or 1"
    r"|p below 0\.004|split \d/\d|(?<![.,\w])0 (?:and|to) 1(?![.,]?\w)"
    r"|\b9\d(?:\.\d+)? %,? (?:for the whole|for all scores|limits|band)"
    r"|0\.5 of a user|(?:less than 1|more than 99) % of data sets|4 times out of 5|p < 0\.0001|would be below 0\.8 in",
    re.IGNORECASE,
)
# Why something cannot be told, and what was read: said in words alone.
DIAGNOSIS = re.compile(
    r"90 % lie from \S+ to \S+ in [^;]+?, and from \S+ to \S+ in [^;]+|90 % of its scores in \[[^]]*\]"
    r"|\d+ % have scores from \S+ to [^;\s]+|run from \S+ to \S+|only \S+ effective users"
    r"|fewer than \d+ expected (?:events|outcomes of [01])"
    r"|at scores? \S+(?: to \S+)?(?=[;.](?:\s|$)|$)|at (?:\d+ of \d+ )?scores from \S+ to [^\s;]+"
    r"|in one of the \d+ cells, from \S+ to [^\s,]+|there are \d+ cells|\d+ of [\d,]+ cells|users in all\)"
    r"|[\d,]+ users (?:occur )?in more than one|of whom [\d,]+ are in more than one"
    r"|at most \d+ cells wide|group \S+ has only \d+ users|\(mean \S+\)"
    r"|outcomes have mean \S+ and standard deviation [\d.,]+|an outcome of \S+ is out of reach"
    r"|an outcome of \S+ is not attained exactly; the nearest is \S+|not monotone \(off by \S+ at score \S+\)"
    r"|the bandwidth \S+|[\d,]+ of [\d,]+ cells are left|[\d,]+ more (?:pairs|rows?)|in \d+ pairs of groups some|[^;:]*…$",
    re.IGNORECASE,
)
NOT_SAID = re.compile(r"(?<![\w.])(?:nan|NaN|inf|-inf|None|infinity)(?![\w])|–\s?%|= –|\(–|\b– to\b|to –|from –|±–|\[–|–\]")
CLAIM = re.compile(
    r"\b(?:above|below|higher|lower|differ|differs|shown|exceeds?|larger|misordered|held to|more common|standard is higher)\b"
)
PAIR = re.compile(r"  \S.*?\s{2,}(?:\+\S|differ,|at least|all pairs)|  .* (?:more pairs? differ|not shown to)")
SUBJECT = re.compile(r"  \S.*: (?:disparity|parity|inconclusive)\b|  and \d+ more$")
HEDGE = re.compile(
    r"\b(?:[Nn]o|[Nn]either|not|cannot|could not|nowhere|nothing|whether|would|none|never|only|unless|if|without|too few)\b|n't\b"
    r"|largest of all|estimate|tested:|null hypothesis"
)


def complaints(case: Case, told: Told) -> list[str]:
    """Everything that is wrong with what an audit says; empty when nothing is."""
    if told.refused:
        return _refusal(told)
    sentences = list(dict.fromkeys(_sentences(told)))
    found = [*_pair_lines(told), *json_complaints(case, told)]
    pool, embedded = _pool(told.document), _embedded(told.texts["page"])
    for where, text in sentences:
        known = pool | embedded if where == "sliders" else pool
        found += [f"{where}: {what}: {text}" for what in _of_sentence(text, told.document, known)]
    return found


def _refusal(told: Told) -> list[str]:
    bad = told.refused.startswith("CRASH") or "Traceback" in told.refused or told.exit_code != 2
    return [f"not refused with reason: {told.refused}"] if bad else []


# The sentences, wherever they stand


def _sentences(told: Told) -> Iterator[tuple[str, str]]:
    document = told.document
    yield from (("summary", text) for text in document["summary"])
    yield from (("notes", text) for text in document["notes"])
    yield from (("reason", text) for text in (document["reason"], document["gate"]["reason"]))
    for subject in document["subjects"]:
        yield from (("unavailable", text) for text in subject["unavailable"].values())
        for name, test in subject["tests"].items():
            yield from ((f"{name} reason", f"{name}: {text}") for text in _reasons(test))
    yield from (("terminal", text) for text in _short_paragraphs(told.texts["terminal"]))
    yield from (("verbose", text) for text in _paragraphs(told.texts["verbose"]))
    page, sliders = _without_sliders(told.texts["page"])
    yield from (("page", text) for text in _page_texts(page))
    yield from (("sliders", text) for section in sliders for text in _texts_in(section))
    yield from (("markdown", text) for text in _markdown_texts(told.texts["markdown"]))
    root = ElementTree.fromstring(told.texts["junit"].split("\n", 1)[1])
    for node in root.iter():
        yield from (("junit", line) for line in (node.text or "").splitlines() if line.strip())
        yield from (("junit", node.get(key)) for key in ("message",) if node.get(key))


def _reasons(test: dict[str, Any]) -> Iterator[str]:
    yield test["reason"]
    yield from (pair["reason"] for pair in test["pairs"])
    yield from (row["reason"] for row in [*test.get("groups", ()), *test.get("other_side", ())])
    yield from (test.get(name) or "" for name in ("disagreement",))
    yield from test.get("misleading", ())


def _paragraphs(text: str) -> list[str]:
    """Sentences of a terminal: indented by two, continued by four; tables have runs of blanks."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    ") and found:
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return [paragraph for paragraph in found if paragraph and not re.search(r"\S {2,}(?!\(p = )\S", paragraph)]


def _short_paragraphs(text: str) -> list[str]:
    """Sentences of the short text: no tables, and every line that goes on stands further in; a pair of groups has two blanks."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("  ") and found and not PAIR.match(line) and not SUBJECT.match(line):
            found[-1] += " " + line.strip()
        else:
            found.append(re.sub(r" {2,}", " ", line.strip()))
    return [paragraph for paragraph in found if paragraph]


def _page_texts(page: str) -> list[str]:
    return _texts_in(page[page.index("<main>") : page.index('id="provenance-title"')])


def _without_sliders(page: str) -> tuple[str, list[str]]:
    """The page, and the sections that have sliders, whose numbers are in the page itself."""
    pattern = r'<section aria-labelledby="[^"]*explorer-title\b[^"]*">.*?</section>'
    return re.sub(pattern, " ", page, flags=re.S), re.findall(pattern, page, flags=re.S)


def _embedded(page: str) -> set[float]:
    """The numbers that sliders look up: as they are, and as they are written."""
    found: set[float] = set()
    for text in re.findall(r'<script type="application/json">(.*?)</script>', page, flags=re.S):
        for token, percent in re.findall(r"(?<![\w.])-?(\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)( %)?", text):
            found.add(float(token.replace(",", "")) / (100 if percent else 1))
    return found


def _texts_in(body: str) -> list[str]:
    body = re.sub(r"<(svg|table|nav|button)\b.*?</\1>", " ", body, flags=re.S)
    parts = re.findall(r"<(p|li|dd|dt|figcaption|h1|h2)\b[^>]*>(.*?)</\1>", body, flags=re.S)
    parts += re.findall(r'<(span) class="answer">(.*?)</span>', body, flags=re.S)
    texts = (html.unescape(re.sub(r"<[^>]+>", " ", content)) for _, content in parts)
    return [" ".join(text.split()) for text in texts if text.strip()]


def _markdown_texts(text: str) -> list[str]:
    plain = html.unescape(re.sub(r"\\(.)", r"\1", text))
    return [line for line in plain.splitlines() if line.strip() and not line.startswith(("|", "<sub>"))]


# One sentence


def _of_sentence(text: str, document: dict[str, Any], pool: set[float]) -> Iterator[str]:
    if NOT_SAID.search(text):
        yield "says what is not known"
    yield from (f"{number!r} is not in the JSON" for number in _unknown_numbers(text, document, pool))
    sizes = text.replace("no more than noise", "0")
    for low, high in re.findall(r"\bfalls from (\S+) to (\S+?)[,;.]?(?:\s|$)", sizes):
        if not float(high.replace(",", "")) < float(low.replace(",", "")):
            yield "falls that does not"
    for low, high in re.findall(r"[(\[]([-+]?\d[\d.,]*)(?: to |, )([-+]?\d[\d.,]*)[)\]]", text):
        if float(low.replace(",", "")) > float(high.replace(",", "")):
            yield "limits the wrong way round"
    yield from _claims(text, document)


def _unknown_numbers(text: str, document: dict[str, Any], pool: set[float]) -> list[str]:
    plain = OF_THE_METHOD.sub(" ", DIAGNOSIS.sub(" ", text))
    for name in sorted(_labels(document), key=len, reverse=True):
        plain = re.sub(rf"(?<!\w)(?<!\d[.,]){re.escape(name)}(?!\w|[.,]\d)", " ", plain)  # "1" is a group, not part of 1,333
    half_widths = _half_widths(document) if "±" in text else set()
    # "At least" and gaps that are shown are rounded down, the gap that bands leave possible up: never to more than is shown.
    directed = re.fullmatch(r"[\d.,]+(?: points)?", text.strip()) or re.search(
        r"\b(at least|a gap above|are ruled out)\b", text, re.IGNORECASE
    )
    units = 1.0 if directed else 0.5
    return [token for token in NUMBER.findall(plain) if not _is_in(token, pool | half_widths, units)]


def _labels(document: dict[str, Any]) -> set[str]:
    """Names that hold digits, which are no numbers."""
    found = {document["title"], document["evenscore"]}
    for subject in document["subjects"]:
        found |= {subject["score"], *subject["attribute"]}
        labels = [row["group"] for row in subject["groups"]]
        found |= {part for label in labels if isinstance(label, list) for part in map(str, label)}
        found |= {label for label in labels if isinstance(label, str)}
    return found


def _is_in(token: str, pool: set[float], units: float) -> bool:
    """Whether a number of the JSON is written like this, up to so many units of its last digit."""
    digits = token.strip("±+-−% ").replace(",", "")
    factor = 100 if token.endswith("%") else 1
    if "e" in digits:
        places = len(digits.split("e")[0].partition(".")[2])
        return any(f"{value:.{places}e}" == digits for value in pool)
    places = len(digits.partition(".")[2])
    unit = 10.0**-places
    return any(abs(value * factor - float(digits)) <= 1.0000002 * units * unit for value in pool) or (
        factor == 1 and any(abs(value * 100 - float(digits)) <= 1.0000002 * units * unit for value in pool if abs(value) <= 1)
    )


COUNTS = ("rows", "users", "unlabelled")


def _pool(document: dict[str, Any]) -> set[float]:
    """The absolute values of all numbers, with sums over groups and the lengths of lists."""
    found = {abs(value) for value in _walk(document)}
    for subject in document["subjects"]:
        groups, pairs = subject["groups"], subject["tests"]["parity"]["pairs"]
        judged = [row for row in groups if not row["not_judged"]]
        found |= {float(sum(row.get(name, 0) for row in rows)) for name in COUNTS for rows in (groups, judged)}
        found |= {float(len(judged)), float(len(groups) - len(judged))}
        found |= {float(len(groups) - named) for named in range(1, len(groups))}  # "and 9 more", after those that fit into a line
        found |= {float(len(groups)), float(len(pairs)), float(len(subject["tests"]["ordering"]["pairs"]))}
        for decided in (subject.get("decision") or {"pairs": []})["pairs"]:
            found |= {float(sum(pair["decided_by"] == decided["decided_by"] for pair in subject["decision"]["pairs"]))}
        for test in subject["tests"].values():
            shown = len([pair for pair in test["pairs"] if pair["verdict"] == "disparity"])
            unjudged = len([pair for pair in test["pairs"] if pair["p_value"] is None])
            found |= {float(shown), float(shown - 2), float(unjudged), float(len(test["pairs"]) - unjudged)}
            found |= {float(len(test.get("regions", ())) - 3)}
            found |= {float(number) for number in Counter(pair["verdict"] for pair in test["pairs"]).values()}
        deciding = [
            pair for name in subject["decides"] for pair in subject["tests"][name]["pairs"] if pair["verdict"] == "disparity"
        ]
        n_shown = len({tuple(sorted((str(pair["group_a"]), str(pair["group_b"])))) for pair in deciding})
        found |= {float(n_shown - told) for told in (1, 2, 3)} | {float(len(pairs) - n_shown)}
    return found | {float(len(document["subjects"]))}


def _walk(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        yield from itertools.chain.from_iterable(_walk(item) for key, item in value.items() if key not in LISTS)
    elif isinstance(value, list):
        yield from itertools.chain.from_iterable(map(_walk, value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _half_widths(document: dict[str, Any]) -> set[float]:
    found = set()
    for subject in document["subjects"]:
        for point in subject["tests"]["parity"]["points"]:
            found |= {abs(point["score"])}
            if point["band_high"] is not None and point["band_low"] is not None:
                found |= {(point["band_high"] - point["band_low"]) / 2}
    return found


# No sentence about a pair says more than its verdict


def _claims(text: str, document: dict[str, Any]) -> Iterator[str]:
    for subject in document["subjects"]:
        if len(document["subjects"]) > 1 and f"by {' × '.join(subject['attribute'])}" not in text:
            continue
        names = {label_text(row["group"]) for row in subject["groups"]}
        for clause in re.split(r";|: |\. |, those of", re.sub(r"\([^)]*\)", "", text)):
            named = {name for name in names if re.search(rf"(?<![\w.])(?<!× ){re.escape(name)}(?! ×)(?![\w]|[.,]\d)", clause)}
            if len(named) == 2 and CLAIM.search(clause) and not HEDGE.search(clause):
                test = _test_meant(text, subject)
                if not is_shown(test, named):
                    yield f"{' and '.join(sorted(named))} are not shown to differ"


def _test_meant(text: str, subject: dict[str, Any]) -> list[dict[str, Any]]:
    tests = subject["tests"]
    if re.search(r"at the threshold|^marginal:|standard is higher for", text) and "marginal" in tests:
        return [tests["marginal"]]
    if re.search(r"order across|misorder|^ordering:|higher score|lower score", text):
        return [tests["ordering"]]
    repair = (subject.get("repair") or {}).get("verification") or {}
    return [tests["parity"], *(repair[when] for when in ("before", "after") if when in repair)]


def _pair_lines(told: Told) -> Iterator[str]:
    """A line about a pair is about one that a deciding test shows, with its numbers; and there are few lines."""
    text, document = told.texts["terminal"], told.document
    lines = text.splitlines()
    if len(lines) > 12 or any(len(line) > 80 for line in [*lines, *told.texts["verbose"].splitlines()]):
        yield f"{len(lines)} lines, the longest of {max(map(len, [*lines, *told.texts['verbose'].splitlines()]))}"
    pairs = [line for line in lines if PAIR.match(line) and " differ" not in line.split("  ")[1]]
    if pairs and document["verdict"] != "disparity":
        yield f"{pairs} without a disparity"
    head = document["headline"]
    for subject in document["subjects"]:
        if (subject["score"], subject["attribute"]) == (head["score"], head["attribute"]):
            tests = [subject["tests"][name] for name in subject["decides"]] if pairs else []
            yield from (f"terminal: not shown: {line}" for line in pairs if not _is_told_of(line, tests, subject))


def _is_told_of(line: str, tests: list[dict[str, Any]], subject: dict[str, Any]) -> bool:
    names = {label_text(row["group"]) for row in subject["groups"]}
    names = {name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?! ×)(?![\w])", re.split(r"  +", line.strip())[0])}
    return len(names) < 2 or any(is_shown(tests, {a, b}) for a in names for b in names if a != b)
