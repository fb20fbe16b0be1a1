#!/usr/bin/env python3
"""Runs the program of a systemd unit as the unit would, where there is no systemd.

    deploy/run_unit.py deploy/pushdowndb.service --program target/release/pushdowndb \\
        --replace /var/lib/pushdowndb/store=/tmp/store --replace 0.0.0.0:9000=127.0.0.1:0

Everything is read from the unit: the command, the system call filter, the other settings that systemd enforces with
seccomp, limits, umask, capabilities. The filters are made by libseccomp, as systemd makes its own. Settings that need
mount namespaces are not applied; a setting that this program does not know is an error, so that none is forgotten.

`--strict` kills the process at a system call outside the filter, whatever SystemCallErrorNumber says: a program that
lives needs none of them.
"""

import argparse
import ctypes
import errno
import os
import resource
import shlex
import stat
import sys
from pathlib import Path

KILL, ALLOW = 0x80000000, 0x7FFF0000
NOT_EQUAL, EQUAL, GREATER, MASKED_EQUAL = 1, 4, 6, 7
NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
DROP_CAPABILITY = 24  # PR_CAPBSET_DROP
NAMESPACE_FLAGS = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00000080]
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}

# What systemd does by mounting, by control groups or by its own service manager.
NOT_APPLIED = {
    "User", "Group", "EnvironmentFile", "ExecReload", "KillSignal", "TimeoutStopSec", "Restart", "RestartSec", "StateDirectory",
    "StateDirectoryMode", "ProtectSystem", "ProtectHome", "PrivateTmp", "ProtectControlGroups", "ProtectProc", "ProcSubset",
    "RemoveIPC", "PrivateUsers", "MemoryMax", "MemoryHigh", "TasksMax", "OOMPolicy", "Type", "ReadWritePaths", "InaccessiblePaths",
    "CapabilityBoundingSet", "AmbientCapabilities", "StartLimitBurst",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("unit", type=Path)
    parser.add_argument("--program", required=True, help="the program to run instead of the one that the unit names")
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW", help="an argument of the command, exchanged")
    parser.add_argument("--strict", action="store_true", help="kill at the first system call outside the filter")
    parser.add_argument("--user", type=int, help="the user to run as, by number; needs root")
    args = parser.parse_args()
    service = Service(args.unit)
    command = service.command(args.program, dict(pair.split("=", 1) for pair in args.replace))
    service.apply(args.strict, args.user)
    os.execv(command[0], command)


class Service:
    """The section [Service] of a unit."""

    def __init__(self, path):
        self.settings = read_service(path)
        self.groups = read_groups(Path(__file__).with_name("system_call_groups.txt"))

    def last(self, name, default=None):
        return self.settings.get(name, [default])[-1]

    def is_on(self, name):
        return self.last(name, "no") in ("yes", "true", "on", "1")

    def command(self, program, replaced):
        words = shlex.split(self.last("ExecStart"))
        unused = set(replaced) - set(words)
        if unused:
            sys.exit(f"the command of the unit has no argument {sorted(unused)}")
        return [program, *(replaced.get(word, word) for word in words[1:])]

    def apply(self, strict, user):
        known = NOT_APPLIED | set(SETTINGS) | {"ExecStart", "SystemCallFilter", "SystemCallErrorNumber", "SystemCallArchitectures"}
        known |= {"LimitNOFILE", "UMask", "NoNewPrivileges", "RestrictAddressFamilies"}
        unknown = set(self.settings) - known
        if unknown:
            sys.exit(f"settings that deploy/run_unit.py does not know: {sorted(unknown)}")
        os.umask(int(self.last("UMask", "0022"), 8))
        if "LimitNOFILE" in self.settings:
            # systemd may raise the hard limit; without its rights this process keeps the one it has.
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            files = int(self.last("LimitNOFILE"))
            files = files if hard == resource.RLIM_INFINITY else min(files, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        libc = ctypes.CDLL(None, use_errno=True)
        if os.geteuid() == 0 and self.last("CapabilityBoundingSet") == "":
            for capability in range(64):
                libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0)
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        if self.is_on("NoNewPrivileges") and libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
            sys.exit("cannot set NoNewPrivileges")
        # The list of calls last: it may forbid what the others need.
        for name, add in SETTINGS.items():
            if self.is_on(name):
                with_filter(ALLOW, lambda seccomp, add=add: add(seccomp, self.groups))
        if "RestrictAddressFamilies" in self.settings:
            families = [FAMILIES[name] for name in self.last("RestrictAddressFamilies").split()]
            with_filter(ALLOW, lambda seccomp: only_families(seccomp, families))
        allowed = self.allowed_calls()
        if allowed is not None:
            refusal = self.last("SystemCallErrorNumber")
            with_filter(KILL if strict or not refusal else error(getattr(errno, refusal)), lambda seccomp: [seccomp.add(ALLOW, call) for call in allowed])

    def allowed_calls(self):
        """As systemd reads the lines: the first says that it is a list of what is allowed, later ones add and take away."""
        lines = self.settings.get("SystemCallFilter", [])
        if not lines:
            return None
        if lines[0].startswith("~"):
            sys.exit("a SystemCallFilter that begins with ~ is a list of what is forbidden, which is not read here")
        allowed = expand("@default", self.groups)
        for line in lines:
            calls = set().union(*(expand(word, self.groups) for word in line.removeprefix("~").split()))
            allowed = allowed - calls if line.startswith("~") else allowed | calls
        return sorted(allowed)


def read_service(path):
    """The settings of [Service], each with all its values in order."""
    settings, section = {}, None
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, _, value = line.partition("=")
            settings.setdefault(name.strip(), []).append(value.strip())
    return settings


def read_groups(path):
    groups = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("@"):
            name, _, members = line.partition(":")
            groups[name] = members.split()
    return groups


def expand(word, groups):
    """The calls that a word of a filter names."""
    if not word.startswith("@"):
        return {word}
    return set().union(*(expand(member, groups) for member in groups[word]))


class Comparison(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("operation", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


class Seccomp:
    """A filter of libseccomp under construction."""

    def __init__(self, default):
        try:
            self.library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
        except OSError:
            sys.exit("libseccomp.so.2 is missing: apt-get install libseccomp2")
        self.library.seccomp_init.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(default)))
        if not self.context:
            sys.exit("libseccomp cannot make a filter")

    def add(self, action, call, *comparisons):
        """A rule; calls that this machine does not have are passed over, as systemd does."""
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            return
        rules = (Comparison * len(comparisons))(*(Comparison(*comparison) for comparison in comparisons))
        result = self.library.seccomp_rule_add_array(self.context, ctypes.c_uint32(action), number, len(comparisons), rules)
        if result != 0:
            sys.exit(f"libseccomp refuses a rule for {call}: {os.strerror(-result)}")

    def load(self):
        result = self.library.seccomp_load(self.context)
        if result != 0:
            sys.exit(f"the kernel refuses the filter: {os.strerror(-result)}")


def with_filter(default, fill):
    seccomp = Seccomp(default)
    fill(seccomp)
    seccomp.load()


def error(number):
    return 0x00050000 | number


EPERM = error(errno.EPERM)


def forbid(*words):
    def add(seccomp, groups):
        for call in sorted(set().union(*(expand(word, groups) for word in words))):
            seccomp.add(EPERM, call)

    return add


def no_namespaces(seccomp, _):
    # The flags of clone3 lie in memory, where no filter sees them; libraries then use clone.
    seccomp.add(error(errno.ENOSYS), "clone3")
    for call in ("unshare", "setns"):
        seccomp.add(EPERM, call)
    for flag in NAMESPACE_FLAGS:
        seccomp.add(EPERM, "clone", (0, MASKED_EQUAL, flag, flag))


def no_realtime(seccomp, _):
    for policy in (os.SCHED_FIFO, os.SCHED_RR, 6):
        seccomp.add(EPERM, "sched_setscheduler", (1, EQUAL, policy, 0))


def no_set_user_id(seccomp, _):
    # As with clone3: the mode of openat2 cannot be seen.
    seccomp.add(error(errno.ENOSYS), "openat2")
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for call, argument in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("creat", 1), ("mknod", 1), ("mknodat", 2)):
            seccomp.add(EPERM, call, (argument, MASKED_EQUAL, bit, bit))
        for call, flags in (("open", 1), ("openat", 2)):
            seccomp.add(EPERM, call, (flags, MASKED_EQUAL, os.O_CREAT, os.O_CREAT), (flags + 1, MASKED_EQUAL, bit, bit))


def no_writable_code(seccomp, _):
    write, execute = 2, 4
    seccomp.add(EPERM, "mmap", (2, MASKED_EQUAL, write | execute, write | execute))
    for call in ("mprotect", "pkey_mprotect"):
        seccomp.add(EPERM, call, (2, MASKED_EQUAL, execute, execute))
    seccomp.add(EPERM, "shmat", (2, MASKED_EQUAL, 0o100000, 0o100000))


def one_personality(seccomp, _):
    seccomp.add(EPERM, "personality", (0, NOT_EQUAL, 0, 0))


def only_families(seccomp, families):
    refusal = error(errno.EAFNOSUPPORT)
    for family in range(0, max(families)):
        if family not in families:
            seccomp.add(refusal, "socket", (0, EQUAL, family, 0))
    seccomp.add(refusal, "socket", (0, GREATER, max(families), 0))


SETTINGS = {
    "PrivateDevices": forbid("@raw-io"),
    "ProtectKernelTunables": forbid("_sysctl"),
    "ProtectKernelModules": forbid("@module"),
    "ProtectKernelLogs": forbid("syslog"),
    "ProtectClock": forbid("@clock"),
    "ProtectHostname": forbid("sethostname", "setdomainname"),
    "RestrictNamespaces": no_namespaces,
    "RestrictRealtime": no_realtime,
    "RestrictSUIDSGID": no_set_user_id,
    "LockPersonality": one_personality,
    "MemoryDenyWriteExecute": no_writable_code,
}

if __name__ == "__main__":
    main()
