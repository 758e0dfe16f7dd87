"""An audit as JUnit's XML: each test that decides is a test case."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from evenscore.auditing.audit_result import Audit
from evenscore.auditing.gate import FAILED, UNSHOWN
from evenscore.auditing.subject import Subject
from evenscore.report.words import subject_sentences

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def audit_junit(audit: Audit) -> str:
    """A disparity is a failure; what is not shown where it must be, too; with a gate that does not ask, it passes."""
    suite = ElementTree.Element("testsuite", name="evenscore", timestamp=audit.provenance.created)
    failures = n_cases = 0
    for subject in audit.subjects:
        gate = audit.check_subject(subject)
        verdicts = {name: subject.tests[name].verdict for name in subject.decides}
        if subject.decision is not None:
            verdicts = {" and ".join(subject.decides): subject.verdict}
        for name, verdict in verdicts.items():
            n_cases += 1
            case = ElementTree.SubElement(suite, "testcase", classname=_xml(f"evenscore.{subject.name}"), name=name)
            if gate.outcome in (FAILED, UNSHOWN) and verdict != "parity":
                failures += 1
                failure = ElementTree.SubElement(case, "failure", message=_xml(gate.reason), type=gate.outcome)
                failure.text = _sentences(subject)
            else:
                ElementTree.SubElement(case, "system-out").text = _sentences(subject)
    suite.set("tests", str(n_cases))
    suite.set("failures", str(failures))
    suite.set("errors", "0")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _sentences(subject: Subject) -> str:
    return _xml("\n".join([f"{subject.verdict}: {subject.reason}", *(sentence.text for sentence in subject_sentences(subject))]))


def _xml(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return NOT_XML.sub("\ufffd", text)
