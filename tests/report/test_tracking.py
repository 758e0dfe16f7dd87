"""Logging to a real MLflow store: sqlite in a temporary folder."""

import json
import os

import pytest

import evenscore as es
from data import NAMES, as_dict, repeated_users

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
mlflow = pytest.importorskip("mlflow")
pytest.importorskip("sqlalchemy")

# MLflow and what it builds on warn about their own future.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.create_experiment("audits", artifact_location=(tmp_path / "artifacts").as_uri())
    mlflow.set_experiment("audits")
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(None)


@pytest.fixture(scope="module")
def audit():
    return es.audit(es.tally(as_dict(repeated_users(4_000, gap=0.3)), **NAMES))


def read(client, run_id, name):
    from pathlib import Path

    return Path(client.download_artifacts(run_id, name)).read_text(encoding="utf-8")


def test_a_run_of_its_own(store, audit):
    run_id = audit.log_mlflow()
    run = store.get_run(run_id)
    assert run.data.tags["evenscore.verdict"] == "disparity" and run.data.tags["evenscore.gate_outcome"] == "failed"
    assert run.data.metrics["evenscore.max_gap"] == pytest.approx(abs(audit.max_gap))
    assert run.data.metrics["evenscore.p_value.parity"] == pytest.approx(audit.tests["parity"].p_value)
    assert run.info.status == "FINISHED"
    assert json.loads(read(store, run_id, "evenscore/audit.json"))["verdict"] == "disparity"
    assert read(store, run_id, "evenscore/report.html") == audit.to_html()


def test_the_active_run_and_a_named_one(store, audit):
    with mlflow.start_run() as run:
        assert audit.log_mlflow() == run.info.run_id
        assert mlflow.active_run() is not None
    assert audit.log_mlflow(run.info.run_id, prefix="again") == run.info.run_id
    assert store.get_run(run.info.run_id).data.tags["again.verdict"] == "disparity"


def test_names_that_mlflow_would_refuse(store):
    data = as_dict(repeated_users(2_000))
    data |= {"a:b=c": data["g"], "ü": data["g"]}
    audit = es.audit(data, score="s", outcome="y", attributes=["a:b=c", "ü"], user="u")
    metrics = store.get_run(audit.log_mlflow()).data.metrics
    assert len([name for name in metrics if name.startswith("evenscore.p_value.")]) == 4
