"""An audit in an MLflow run, beside the model that it is about."""

from __future__ import annotations

import math
from typing import Any

from evenscore.auditing.audit_result import Audit
from evenscore.errors import EvenscoreError, first_line, require_text


def log_mlflow(audit: Audit, run_id: str | None, prefix: str) -> str:
    """Tags for verdicts, metrics for numbers, the report and the JSON as artifacts; into the given, the active or a new run."""
    try:
        import mlflow
    except ImportError:
        raise EvenscoreError("logging to MLflow needs it: install evenscore[mlflow]") from None
    require_text("prefix", prefix)
    if run_id is not None:
        require_text("run_id", run_id)
    try:
        return _log_run(mlflow, audit, run_id, prefix)
    except mlflow.exceptions.MlflowException as error:
        raise EvenscoreError(f"MLflow refuses: {first_line(error)}") from error


def _log_run(mlflow: Any, audit: Audit, run_id: str | None, prefix: str) -> str:
    client = mlflow.MlflowClient()
    active = mlflow.active_run()
    run_id = run_id or (active.info.run_id if active is not None else None)
    if run_id is not None:
        _log(client, run_id, audit, prefix)
        return str(run_id)
    with mlflow.start_run() as run:
        _log(client, run.info.run_id, audit, prefix)
        return str(run.info.run_id)


def _log(client: Any, run_id: str, audit: Audit, prefix: str) -> None:
    gate = audit.check()
    tags = {"verdict": audit.verdict, "gate": gate.rule, "gate_outcome": gate.outcome, "reason": audit.reason[:4000]}
    for name, value in tags.items():
        client.set_tag(run_id, f"{prefix}.{name}", value)
    for name, number in _metrics(audit).items():
        if math.isfinite(number):
            client.log_metric(run_id, f"{prefix}.{name}", number)
    client.log_text(run_id, audit.to_html(), f"{prefix}/report.html")
    client.log_text(run_id, audit.to_json(), f"{prefix}/audit.json")


def _metrics(audit: Audit) -> dict[str, float]:
    metrics = {"max_gap": abs(audit.max_gap), "minimum_detectable_gap": audit.minimum_detectable_gap}
    for key, test in audit.tests.items():
        metrics[f"p_value.{_metric_name(key)}"] = test.p_value
    return metrics


def _metric_name(key: str) -> str:
    """MLflow allows letters, digits and a few signs only."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "_-./ ") else "_" for char in key.replace(": ", "."))[:200]
