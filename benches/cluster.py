#!/usr/bin/env python3
"""A cluster in namespaces of this machine (`forebay-site`), and how long the calls of the workload manager take there.

The calls are those that Slurm makes for a job, with its words and in its order, by the same program; what Slurm itself does between
them is not measured. Every host is on this machine: what eight storage nodes would do beside each other is done by its processors.

usage inside the control host: cluster.py CALLS_OF_ONE_JOB_AS_JSON      prints {"verb": milliseconds, ...}
"""

import json
import subprocess
import sys
import time
from pathlib import Path

STARTING_S = 120
STORAGE_NODES = 8
COMPUTE_NODES = 4
# Of the user alice, whom the cluster knows.
USER = "20001"


class Site:
    """A cluster that runs while the context lasts; `kind` is what its fragments are."""

    def __init__(self, programs, work, kind):
        self.programs, self.work, self.kind = programs, work, kind
        self.hosts = work / "hosts"

    def __enter__(self):
        self.work.mkdir()
        sizes = ["--storage-nodes", str(STORAGE_NODES), "--compute-nodes", str(COMPUTE_NODES), "--kind", self.kind]
        command = [self.programs / "forebay-site", "--hosts", self.hosts, "--programs", self.programs, *sizes]
        with open(self.work / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        end = time.time() + STARTING_S
        while not self.hosts.exists():
            if self.process.poll() is not None or time.time() > end:
                raise SystemExit(f"bench: the cluster did not start\n{(self.work / 'log').read_text()}")
            time.sleep(0.05)

    def job(self, token, nodes, capacity):
        """Milliseconds of each call of a job without staging."""
        script = self.work / f"job{token}.sh"
        script.write_text(f"#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity={capacity}\n")
        list_of_nodes = self.work / f"nodes{token}"
        list_of_nodes.write_text("".join(f"client{number}\n" for number in range(nodes)))
        calls = calls_of_a_job(str(token), capacity, script, list_of_nodes, self.work / f"paths{token}")
        control = dict(line.split() for line in self.hosts.read_text().splitlines())["control"]
        enter = ["nsenter", "--target", control, "--mount", "--net", "--uts", "--ipc", "--pid", "--"]
        command = [*enter, sys.executable, Path(__file__).resolve(), json.dumps([str(self.programs / "dw_wlm_cli"), calls])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: a job's call failed\n{done.stdout}\n{(self.work / 'log').read_text()}")
        return json.loads(done.stdout)

    def __exit__(self, *failure):
        self.process.terminate()
        if self.process.wait() != 0 and not any(failure):
            raise SystemExit(f"bench: the cluster did not end well\n{(self.work / 'log').read_text()}")


def calls_of_a_job(token, capacity, script, nodes, paths):
    """What Slurm calls, in its order."""
    job = ["--token", token, "--job", str(script)]
    who = ["--caller", "SLURM", "--user", USER, "--groupid", USER, "--capacity", f"default:{capacity}"]
    return [
        ["job_process", "--job", str(script)],
        ["setup", "--token", token, *who, "--job", str(script)],
        ["data_in", *job],
        ["real_size", "--token", token],
        ["paths", *job, "--pathfile", str(paths)],
        ["pre_run", *job, "--nodehostnamefile", str(nodes)],
        ["post_run", *job],
        ["data_out", *job],
        ["teardown", *job],
    ]


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    program, calls = json.loads(arguments[0])
    taken = {}
    for verb, *words in calls:
        start = time.time()
        done = subprocess.run([program, "--function", verb, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        taken[verb] = 1000 * (time.time() - start)
        if done.returncode != 0:
            print(f"{verb} ended with {done.returncode}: {done.stdout}")
            return 1
    print(json.dumps(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
