# SPDX-License-Identifier: Apache-2.0
"""Threads of the daemon that stand still while a test looks at, or changes, something else."""
import contextlib
import ctypes
import os
import pathlib

import lab

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207      # linux/ptrace.h
WALL = 0x40000000                       # Of waitpid(): also for threads.

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p
_libc.ptrace.restype = ctypes.c_long


def named(pid, name):
    """The ids of the threads of process 'pid' whose names begin with 'name'."""
    found = [int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
             if (task / "comm").read_text(encoding="ascii").startswith(name)]
    if not found:
        raise lab.Failed(f"process {pid} has no thread {name}")
    return found


@contextlib.contextmanager
def stopped(threads):
    """For the time of a "with" block, these threads stand still, as a debugger stops them; others of the process go on.  If this
    process is killed, they go on, too."""
    held = []
    try:
        for thread in threads:
            _ptrace(PTRACE_SEIZE, thread)
            held.append(thread)
            _ptrace(PTRACE_INTERRUPT, thread)
            if not os.WIFSTOPPED(os.waitpid(thread, WALL)[1]):
                raise lab.Failed(f"thread {thread} has ended")
        yield
    finally:
        for thread in held:
            with contextlib.suppress(lab.Failed):       # It is not there any more.
                _ptrace(PTRACE_DETACH, thread)


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None):
        raise lab.Failed(f"ptrace {request:#x} of thread {thread}: {os.strerror(ctypes.get_errno())}")
