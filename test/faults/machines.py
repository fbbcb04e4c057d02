# ===- machines.py - two machines in one ------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Namespaces stand for machines: host name, network, shared memory and mounts of
# their own, joined by a cable (veth). All of it lives inside of outer namespaces
# that end with this script, however it ends, and everything with them.
# ===-----------------------------------------------------------------------===
"""Machines for tests: namespaces joined by a cable. Needs root, as a container often gives it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

SKIPPED = 77  # CTest's SKIP_RETURN_CODE
INSIDE = "DT_TEST_INSIDE"
ADDRESSES = {"left": "10.77.0.1", "right": "10.77.0.2"}
cables = threading.Lock()  # while it is laid a cable's ends have the machines' names


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")


def isolate():
    """Goes on in namespaces that end with this script; where the system refuses them, ends the test as skipped."""
    if os.environ.pop(INSIDE, None):
        return call("ip", "link", "set", "lo", "up")
    outer = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    missing = [tool for tool in ("unshare", "nsenter", "setpriv", "ip") if not shutil.which(tool)]
    trial = "ip link add left type veth peer name right && unshare --uts --ipc mount -t tmpfs none /dev/shm"
    done = None if missing else subprocess.run([*outer, "sh", "-c", trial], capture_output=True, text=True)
    if missing or done.returncode:
        print(f"skipped: no machines can be made here: {'no ' + ', '.join(missing) if missing else done.stderr.strip()}")
        sys.exit(SKIPPED)
    # Killed, this script takes unshare along, and that all others.
    inside = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *outer, sys.executable, *sys.argv], env=dict(os.environ, **{INSIDE: "1"}))
    signal.signal(signal.SIGTERM, lambda *_: inside.kill())
    sys.exit(inside.wait())


class Machines:
    """Machines "left" and "right", made after isolate(). `folder`: for what they need. `places`: how many ranks mpirun starts on each, "left:1,right:2"."""

    def __init__(self, folder, places):
        self.folder, self.holders = folder.resolve(), {}
        self.places = [(name, int(ranks)) for name, ranks in (place.split(":") for place in places.split(","))]
        self.folder.mkdir(parents=True)
        self.write("hosts", "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in ADDRESSES.items()))
        self.write("places", "".join(f"{name} slots={ranks}\n" for name, ranks in self.places))
        for name in ADDRESSES:
            self.boot(name)
        with cables:
            call("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
            for name in ADDRESSES:
                call("ip", "link", "set", name, "netns", self.holders[name].pid)
        for name, address in ADDRESSES.items():
            self.on(name, f"ip link set lo up && ip link set {name} name eth0 && ip address add {address}/24 dev eth0 && ip link set eth0 up")
        # Stands for ssh: as there, nothing of the environment comes along.
        entries = "".join(f'{name}) exec {" ".join(self.enter(name))} env -i PATH="$PATH" HOME=/ TMPDIR=/dev/shm sh -c "$*";;\n' for name in ADDRESSES)
        agent = self.write("agent", f"#!/bin/sh\nmachine=$1\nshift\ncase $machine in\n{entries}esac\nexit 255\n")
        agent.chmod(0o755)
        self.environment = {"TMPDIR": "/dev/shm", "OMPI_MCA_plm_rsh_agent": str(agent)}

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name

    def boot(self, name):
        """The process whose namespaces are the machine."""
        mounts = [("hosts", "/etc/hosts"), ("places", "/etc/openmpi/openmpi-default-hostfile")]
        start = " && ".join([f"hostname {name}", "mount -t tmpfs none /dev/shm", *(f"mount --bind {self.folder}/{file} {path}" for file, path in mounts), "echo up", "exec sleep infinity"])
        holder = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", start], stdout=subprocess.PIPE, text=True)
        self.holders[name] = holder
        if holder.stdout.readline() != "up\n":
            raise RuntimeError(f"{name} does not come up")

    def enter(self, name):
        """Comes before a command that runs on a machine; also from another one."""
        return ["nsenter", "--target", str(self.holders[name].pid), "--net", "--uts", "--ipc", "--mount", "--wd=."]

    def start_agents(self, command):
        """A command that starts `command` as ranks on all machines, by agents.py, and ends with a code that is not 0 if one does."""
        ranks, first, lines = sum(count for _, count in self.places), 0, []
        for name, count in self.places:
            agent = [*self.enter(name), sys.executable, str(pathlib.Path(__file__).with_name("agents.py")), f"{first}", f"{count}", f"{ranks}"]
            lines.append(" ".join(agent) + ' "$@" & agents="$agents $!"')
            first += count
        script = "\n".join([*lines, "code=0", "for agent in $agents; do wait $agent || code=$?; done", "exit $code"])
        return ["sh", "-c", script, "agents", *command]

    def on(self, name, script):
        call(*self.enter(name), "sh", "-c", script)

    def own(self, name, path):
        """What the machine has at this path is its own from now on, a copy of what is there."""
        path.mkdir(exist_ok=True)
        place = self.folder / name / path.name
        shutil.copytree(path, place)
        self.on(name, f"mount --bind {place} {path}")

    def pull_cable(self):
        self.on("right", "ip link set eth0 down")

    def drop_packets(self):
        """The link stays up, but what is sent goes to an address that nobody has."""
        for name, other in (("left", "right"), ("right", "left")):
            self.on(name, f"ip neigh replace {ADDRESSES[other]} lladdr 02:00:00:00:00:01 dev eth0 nud permanent")

    def shut_down(self):
        """With all that runs on them."""
        names = {f"/proc/{holder.pid}/ns/uts" for holder in self.holders.values()}
        machines = {os.readlink(name) for name in names if os.path.exists(name)}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/uts") in machines:
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:  # gone already
                pass
        for holder in self.holders.values():
            holder.wait()
