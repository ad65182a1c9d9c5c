"""System calls that a program with files, threads and TCP is refused when it is locked in.

Landlock restricts which files are opened and which signals are sent. These calls change files without opening them, reach
other processes and services of the same user, or take what the kernel offers in addition to both. Sources: the system call
tables of x86-64 and arm64, landlock(7), fcntl(2), ioctl_tty(2), clone(2).
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.sandbox.bpf import ALLOW, ARM64, REFUSE, UNKNOWN, CallArgument, CallChoice, Machine

KNOWN_CALLS = 452
"""Calls with this number or a higher one came with Linux 6.6 or later; both machines number them in the same way."""
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, NETLINK_ROUTE = 1, 2, 10, 16, 0
SOCK_STREAM, SOCK_TYPES = 1, 0xF
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE = 8, 10, 15, 1024
TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP = 0x5412, 0x541C, 0x8901, 0x8902
NEW_NAMESPACES = 0x7E02_0000

REFUSED_X86_64 = {
    # other processes, and signals to them
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "process_madvise": 440, "process_mrelease": 448, "move_pages": 279, "migrate_pages": 256,
    "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "setpriority": 141, "ioprio_set": 251,
    "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314,
    # out of the group that ends with the owner
    "setsid": 112, "setpgid": 109,
    # memory and queues that are shared by name, keys
    "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semtimedop": 220, "semctl": 66, "msgget": 68,
    "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241, "keyctl": 250, "add_key": 248,
    "request_key": 249,
    # files that are changed or watched without being opened, or executed without having a path
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "lchown": 94, "fchown": 93, "fchownat": 260, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "utime": 132,
    "utimes": 235, "futimesat": 261, "utimensat": 280, "truncate": 76, "inotify_init": 253, "inotify_init1": 294,
    "fanotify_init": 300, "name_to_handle_at": 303, "open_by_handle_at": 304, "memfd_create": 319, "memfd_secret": 447,
    # parts of the kernel with interfaces of their own
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323, "bpf": 321,
    "perf_event_open": 298, "modify_ldt": 154, "lookup_dcookie": 212, "personality": 135,
    # namespaces, mounts and the machine
    "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "move_mount": 429,
    "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "swapon": 167,
    "swapoff": 168, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313,
    "delete_module": 176, "reboot": 169, "acct": 163, "quotactl": 179, "quotactl_fd": 443, "syslog": 103, "vhangup": 153,
    "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305, "adjtimex": 159, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173,
}  # fmt: skip
REFUSED_ARM64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "process_madvise": 440, "process_mrelease": 448, "move_pages": 239, "migrate_pages": 238,
    "tkill": 130, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "setpriority": 140, "ioprio_set": 30,
    "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274,
    "setsid": 157, "setpgid": 154,
    "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "semop": 193, "semtimedop": 192, "semctl": 191,
    "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "mq_open": 180, "mq_unlink": 181, "keyctl": 219,
    "add_key": 217, "request_key": 218,
    "fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
    "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "utimensat": 88, "truncate": 45, "inotify_init1": 26,
    "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265, "memfd_create": 279, "memfd_secret": 447,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 282, "bpf": 280,
    "perf_event_open": 241, "lookup_dcookie": 18, "personality": 92,
    "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "move_mount": 429,
    "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "swapon": 224,
    "swapoff": 225, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273,
    "delete_module": 106, "reboot": 142, "acct": 89, "quotactl": 60, "quotactl_fd": 443, "syslog": 116, "vhangup": 58,
    "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266, "adjtimex": 171, "sethostname": 161,
    "setdomainname": 162,
}  # fmt: skip
CHOSEN_X86_64 = {
    "socket": 41, "socketpair": 53, "fcntl": 72, "ioctl": 16, "clone": 56, "clone3": 435, "kill": 62, "tgkill": 234,
    "prlimit64": 302, "sched_setaffinity": 203,
}  # fmt: skip
CHOSEN_ARM64 = {
    "socket": 198, "socketpair": 199, "fcntl": 25, "ioctl": 29, "clone": 220, "clone3": 435, "kill": 129, "tgkill": 131,
    "prlimit64": 261, "sched_setaffinity": 122,
}  # fmt: skip
TABLES = {
    "x86_64": (REFUSED_X86_64, CHOSEN_X86_64),
    "aarch64": (REFUSED_ARM64, CHOSEN_ARM64),
}
"""Numbers of the calls that are refused, and of those whose arguments decide."""


def refused_calls(machine: Machine, pid: int) -> Mapping[int, CallChoice | int]:
    """Return what is decided of each call that is not simply allowed, by its number.

    Args:
        machine: Whose numbers to use.
        pid: The process that is to be locked in.
    """
    refused, chosen = TABLES["aarch64" if machine is ARM64 else "x86_64"]
    own = CallChoice([[CallArgument(0, [0, pid])]], ALLOW, REFUSE)
    choices: dict[str, CallChoice | int] = {
        "socket": CallChoice(
            [[CallArgument(0, [AF_INET, AF_INET6])], [CallArgument(0, [AF_NETLINK]), CallArgument(2, [NETLINK_ROUTE])]],
            ALLOW,
            REFUSE,
        ),
        # a pair is connected; one of another type could still send to the name of a service
        "socketpair": CallChoice(
            [[CallArgument(0, [AF_UNIX]), CallArgument(1, [SOCK_STREAM], SOCK_TYPES)]], ALLOW, REFUSE
        ),
        # who owns a file is sent its signals: this would be a kill(2) of other processes
        "fcntl": CallChoice([[CallArgument(1, [F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE])]], REFUSE, ALLOW),
        "ioctl": CallChoice([[CallArgument(1, [TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP])]], REFUSE, ALLOW),
        "clone": CallChoice([[CallArgument(0, [0], NEW_NAMESPACES)]], ALLOW, REFUSE),
        "clone3": UNKNOWN,  # its flags are in memory, which a filter cannot read; libraries then use clone
        "kill": own,
        "tgkill": own,
        "prlimit64": own,
        "sched_setaffinity": own,
    }
    return {
        **dict.fromkeys(refused.values(), REFUSE),
        **{chosen[name]: choice for name, choice in choices.items()},
    }
