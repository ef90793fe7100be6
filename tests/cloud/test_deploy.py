"""What stands in deploy/ is what Dagster, its launchers and the suite accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

# The one private import: nothing public holds a launcher's settings against its schema without a cluster.
from dagster._config import process_config

from assets.jobs import build_jobs
from gavel.suite import load_suite
from tests.e2e.conftest import Project, project

__all__ = ["project"]

DEPLOY = Path(__file__).parents[2] / "deploy"


def settings(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))


@pytest.fixture
def deployed(project: Project) -> Any:
    """The suite of deploy/kubernetes, in a folder with prompts."""
    written = settings("kubernetes/suite.yaml")
    (project.folder / "suite.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    return load_suite(project.folder / "suite.yaml")


def test_every_run_carries_the_resources_of_its_kind(deployed: Any) -> None:
    k8s = pytest.importorskip("dagster_k8s.job", reason="the extra k8s is not installed")
    jobs = {job.name: job for job in build_jobs(deployed)}
    for name, memory in (("ingest_day", "8Gi"), ("judge_chat_shard", "3Gi")):
        tag = jobs[name].tags["dagster-k8s/config"]
        config = k8s.UserDefinedDagsterK8sConfig.from_dict(
            tag if isinstance(tag, dict) else yaml.safe_load(tag)
        )
        assert config.container_config["resources"]["limits"]["memory"] == memory
    assert "dagster-k8s/config" not in (jobs["publish_day"].tags or {})


def test_the_launcher_of_the_chart_takes_its_values() -> None:
    launcher = pytest.importorskip("dagster_k8s.launcher", reason="the extra k8s is not installed")
    values = settings("kubernetes/values.yaml")
    config = values["runLauncher"]["config"]["k8sRunLauncher"]
    given = {
        "service_account_name": "gavel",
        "instance_config_map": "gavel-instance",
        "dagster_home": "/gavel/home",
        "image_pull_policy": config["imagePullPolicy"],
        "resources": config["resources"],
    }
    checked = process_config(launcher.K8sRunLauncher.config_type(), given)
    assert checked.success, checked.errors


def test_the_instance_of_the_chart_is_one_that_dagster_makes(tmp_path: Path) -> None:
    """The parts of dagster.yaml that the chart makes of the values, as Dagster reads them."""
    values = settings("kubernetes/values.yaml")
    daemon, limits = values["dagsterDaemon"], values["concurrency"]
    assert not daemon["runCoordinator"]["enabled"], "the chart then writes none, and Dagster queues"
    made = {
        "concurrency": {
            "pools": {
                "granularity": limits["pools"]["granularity"],
                "default_limit": limits["pools"]["defaultLimit"],
            },
            "runs": {"max_concurrent_runs": limits["runs"]["maxConcurrentRuns"]},
        },
        "run_monitoring": {
            "enabled": daemon["runMonitoring"]["enabled"],
            "start_timeout_seconds": daemon["runMonitoring"]["startTimeoutSeconds"],
            "poll_interval_seconds": daemon["runMonitoring"]["pollIntervalSeconds"],
        },
        "run_retries": {"enabled": daemon["runRetries"]["enabled"]},
        "telemetry": values["telemetry"],
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(made), encoding="utf-8")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        found = instance.get_concurrency_config()
        assert found.pool_config.default_pool_limit == 1
        assert found.run_queue_config is not None
        assert found.run_queue_config.max_concurrent_runs == 80
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 0, "jobs say by their tags which may be retried"


def test_what_reads_the_data_has_the_identity_and_the_volume() -> None:
    """The chart gives runs the service account and the security context of the code's deployment."""
    values = settings("kubernetes/values.yaml")["dagster-user-deployments"]
    assert "iam.gke.io/gcp-service-account" in values["serviceAccount"]["annotations"]
    (deployment,) = values["deployments"]
    group = deployment["podSecurityContext"]["fsGroup"]
    assert f"useradd --uid {group} " in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    claim = settings("kubernetes/cache.yaml")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    pod = settings("kubernetes/suite.yaml")["run_tags"]["judge"]["dagster-k8s/config"]
    (volume,) = pod["pod_spec_config"]["volumes"]
    assert volume["persistent_volume_claim"]["claim_name"] == claim["metadata"]["name"]


def test_the_instance_over_celery_is_one_that_dagster_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = pytest.importorskip(
        "dagster_celery.launcher", reason="the extra celery is not installed"
    )
    monkeypatch.setenv("GAVEL_CELERY_BROKER", "redis://127.0.0.1:6379/0")
    written = settings("celery/dagster.yaml")
    assert written.pop("storage")["postgres"]["postgres_db"]["password"] == {
        "env": "GAVEL_PG_PASSWORD"
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert isinstance(instance.run_launcher, launcher.CeleryRunLauncher)
        assert instance.run_monitoring_enabled


def test_the_image_holds_every_package_of_the_project() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    for package in ("gavel", "assets", "resources", "sensors"):
        assert f"COPY {package} {package}" in text
