"""A Slurm cluster of one node, this machine, started for a test and stopped after it.

Without Debian's slurm-wlm and munge its tests are skipped; REQUIRE_SLURM=1 turns that skip into a failure.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=64000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _programs() -> dict[str, str]:
    """Paths of Slurm's programs; skips the calling test (or fails it under REQUIRE_SLURM=1) where one is missing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    found = {name: shutil.which(name, path=path) for name in PROGRAMS}
    absent = [name for name, where in found.items() if not where]
    if absent:
        missing(
            f"No Slurm on this machine (without {', '.join(absent)}; Debian's slurm-wlm and munge have them)"
        )
    return found


def missing(sentence: str) -> None:
    """Skip the calling test, or fail it under REQUIRE_SLURM=1."""
    if os.environ.get("REQUIRE_SLURM") == "1":
        pytest.fail(f"{sentence}, and REQUIRE_SLURM=1 demands it")
    pytest.skip(f"{sentence}: no job was submitted")


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextmanager
def cluster(folder: Path) -> Iterator[dict[str, str]]:
    """The cluster, with all its files in ``folder``; gives the environment in which Slurm's commands know it."""
    programs = _programs()
    folder.chmod(0o711)  # munged wants no folder that others may write to, and one that they may pass
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host = socket.gethostname().split(".")[0]
    words = {"host": host, "ports": _free_ports(2), "user": getpass.getuser(), "folder": folder}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**words), encoding="utf-8")
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    # Snakemake's executor drops SLURM_CONF from the environment of a job's srun, which then looks in /etc only.
    srun = folder / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(
        f'#!/bin/sh\nSLURM_CONF="{folder}/slurm.conf" exec {programs["srun"]} "$@"\n', encoding="utf-8"
    )
    srun.chmod(0o755)
    path = f"{srun.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
    files = {"key-file": key, **{f"{name}-file": folder / f"munge.{name}" for name in ("pid", "log", "seed")}}
    munged = [f"--{option}={path}" for option, path in files.items()]
    daemons = [
        [programs["munged"], "--foreground", "--force", f"--socket={folder}/munge.socket", *munged],
        [programs["slurmctld"], "-D", "-f", str(folder / "slurm.conf")],
        [programs["slurmd"], "-D", "-f", str(folder / "slurm.conf"), "-N", host],
    ]
    with ExitStack() as stack:
        for number, command in enumerate(daemons):
            log = stack.enter_context(open(folder / f"{Path(command[0]).name}.out", "w"))
            daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(_stop, daemon)
            if number == 0:
                _wait(lambda: (folder / "munge.socket").exists(), folder)
        _wait(lambda: "idle" in _said(["sinfo", "-h", "-o", "%t"], environment), folder)
        yield environment


def _said(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30).stdout


def _wait(ready, folder: Path, seconds: float = 30) -> None:
    """Wait until ``ready()``; fails the test with the daemons' words if it takes too long."""
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            logs = "\n".join(
                f"{p.name}: {p.read_text(errors='replace')[-2000:]}" for p in folder.glob("*.out")
            )
            pytest.fail(f"the Slurm cluster did not start in {seconds} s\n{logs}")
        time.sleep(0.1)


def _stop(daemon: subprocess.Popen) -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def cancel(part: str, environment: dict[str, str]) -> None:
    """``scancel`` the one job in whose comment, which names rule and wildcards, ``part`` occurs."""
    lines = _said(["squeue", "-h", "-o", "%i %k"], environment).splitlines()
    (job,) = (line.split()[0] for line in lines if part in line)
    subprocess.run(["scancel", job], env=environment, check=True)
