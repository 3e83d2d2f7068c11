"""Renders the Helm chart. `python -m tests.deploy.chart` lints it, and validates what it renders: see `make check`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

PROJECT = Path(__file__).resolve().parents[2]
CHART = PROJECT / "deploy" / "helm"
LARGEST = (CHART / "ci" / "largest-values.yaml").read_text()
# The oldest and the newest version whose schemas the rendered objects are compared with.
KUBERNETES = ("1.27", "1.37")


class ChartRefused(Exception):
    """Raised when Helm is missing, or refuses the chart or the values; the text is Helm's."""


def helm(*command: str, values: str) -> str:
    """Return what Helm prints of the chart with the smallest values and these, as YAML; raise `ChartRefused`."""
    options = ["--kube-version", KUBERNETES[-1], "--values", CHART / "ci" / "smallest-values.yaml", "--values", "-"]
    ours = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if (program := shutil.which("helm", path=ours)) is None:
        raise ChartRefused("the chart is checked with Helm 3: install `helm`")
    done = subprocess.run([program, *command, CHART, *options], input=values, capture_output=True, text=True)
    if done.returncode:
        raise ChartRefused(done.stdout + done.stderr)
    return done.stdout


def render(values: str) -> dict[str, Any]:
    """Return the objects of the release `poisonadmin` by kind and name: `Deployment web`, `Service`."""
    objects = [one for one in yaml.safe_load_all(helm("template", "poisonadmin", values=values)) if one]
    return {f"{one['kind']} {one['metadata']['name'][len('poisonadmin-') :]}".strip(): one for one in objects}


if __name__ == "__main__":
    try:
        for given in ("", LARGEST):
            helm("lint", "--strict", values=given)
            for one in render(given).values():
                # Of the Prometheus operator, and no part of Kubernetes.
                for version in KUBERNETES if one["kind"] != "ServiceMonitor" else ():
                    kubernetes_validate.validate(one, version, strict=True)
    except (ChartRefused, kubernetes_validate.ValidationError) as error:
        sys.exit(f"deploy/helm: {error}")
