"""A stand-in for a Kubernetes cluster: answers its API, and runs a job's command in an empty folder of its own.

That is what a pod is for Snakemake as long as the container has Python and this project. No container is made, no
resources are enforced, and nothing is scheduled.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    pods: dict[str, subprocess.Popen]
    secrets: dict[str, str]
    submitted: list[dict[str, Any]]

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/secrets"):
            self.secrets.update(
                {name: base64.b64decode(value).decode() for name, value in body["data"].items()}
            )
        else:
            self.submitted.append(body)
            self._run(body)
        self._answer(body, 201)

    def _run(self, job: dict[str, Any]) -> None:
        container = job["spec"]["template"]["spec"]["containers"][0]
        name = job["metadata"]["name"]
        work = self.folder / name
        work.mkdir()
        given = {
            item["name"]: self.secrets[item["valueFrom"]["secretKeyRef"]["key"]] for item in container["env"]
        }
        path = os.pathsep.join(
            [str(self.folder / "bin"), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
        )
        with open(self.folder / f"{name}.log", "w") as log:
            self.pods[name] = subprocess.Popen(
                [*container["command"], *container["args"]],
                cwd=work,
                env={"PATH": path, "HOME": str(work), **given},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def do_GET(self) -> None:
        if "/jobs/" not in self.path:  # a list of pods
            return self._answer({"apiVersion": "v1", "kind": "PodList", "items": []})
        name = self.path.split("/jobs/")[1].split("/")[0]
        code = self.pods[name].poll()
        status = {} if code is None else {"failed": 1} if code else {"succeeded": 1}
        return self._answer(
            {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "status": status}
        )

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer({"apiVersion": "v1", "kind": "Status", "status": "Success"})


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """The environment in which Snakemake's executor finds the stand-in, and the jobs that were submitted to it."""
    pip = folder / "bin" / "pip"  # a pod installs the storage plugin; the Python of these tests has it
    pip.parent.mkdir(parents=True)
    pip.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    pip.chmod(0o755)
    own = {"folder": folder, "pods": {}, "secrets": {}, "submitted": []}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), own))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "one", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "someone", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "someone"}}],
    }
    (folder / "config").write_text(json.dumps(settings), encoding="utf-8")
    try:
        yield os.environ | {"KUBECONFIG": str(folder / "config")}, own["submitted"]
    finally:
        server.shutdown()
        for pod in own["pods"].values():
            pod.kill()
            pod.wait()
