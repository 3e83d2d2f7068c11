"""A handler that does what its payload says; every way to die, and some that only look like it."""

import ctypes
import os
import resource
import signal
import sys
import threading
import time

from poisonadmin_handler import Discard, EndConversation, Message, MoveTo, Rollback


class OrderRejected(Exception):
    """What a shop would raise."""


def handle(message: Message) -> object:
    """Do what the payload says."""
    words = message.text().split()
    return DEEDS[words[0]](*words[1:])


def kill(name: str) -> None:
    """Send this process a signal."""
    print("about to send", name, flush=True)
    os.kill(os.getpid(), signal.Signals[name])
    time.sleep(5)


def kill_parent() -> None:
    """Kill the process that delivers, as the loss of a server would."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(5)


def overflow() -> None:
    """Overflow the native stack: nested callbacks through C know no recursion limit."""
    sys.setrecursionlimit(10**9)
    kind = ctypes.CFUNCTYPE(ctypes.c_int)

    def again() -> int:
        return kind(again)()

    again()


def allocate(megabytes: str) -> None:
    """Allocate, and touch what was allocated."""
    held = [bytearray(1024 * 1024) for _ in range(int(megabytes))]
    print(len(held))


def spin() -> None:
    """Use the processor for ever."""
    while True:
        pass


def deaf() -> None:
    """Ignore what can be ignored, and never end."""
    for number in (signal.SIGTERM, signal.SIGXCPU, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def close_pipes() -> None:
    """Close every descriptor there is."""
    os.closerange(0, 256)


def swap_pipes() -> None:
    """Close every descriptor, and open others under their numbers."""
    os.closerange(0, 256)
    for _ in range(16):
        os.open("/dev/zero", os.O_RDWR)


def fork_and_die() -> None:
    """Leave a process behind that goes on, and die."""
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(30)


def fork_and_return() -> None:
    """Return twice: here and in another process."""
    os.fork()


def fork_and_exit() -> None:
    """Do what many programs do in a forked process."""
    if os.fork() == 0:
        sys.exit(0)


def grandchild() -> None:
    """Leave a process behind that holds every descriptor."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
        os._exit(0)


def escape(note: str, then: str = "ok") -> None:
    """Leave a process behind that has another parent, session and program, and no environment; then go on."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(note, "w") as file:
                file.write(str(os.getpid()))
            os.execve("/bin/sleep", ["sleep", "60"], {})
        os._exit(0)
    os.wait()
    while not os.path.exists(note) or os.path.getsize(note) == 0:
        time.sleep(0.01)
    DEEDS[then]()


DOOM = threading.Event()


def late() -> None:
    """Return, and leave a thread that kills the process in the turn of a message that is `doomed`."""
    threading.Thread(target=lambda: DOOM.wait() and os._exit(9), daemon=True).start()


def doomed() -> None:
    """Give such a thread its chance."""
    DOOM.set()
    time.sleep(1)


def wreck(how: str, then: str = "ok", *words: str) -> None:
    """Write into the journal of this sandbox, or cut it off; then go on."""
    with open("/proc/self/maps") as maps:
        line = next(line.split() for line in maps if line.rstrip().endswith(".journal"))
    start, end = (int(number, 16) for number in line[0].split("-"))
    if how == "cut":
        os.truncate(line[-1], 0)
    elif how == "shorten":
        os.truncate(line[-1], 4096)
    elif how == "memory":
        ctypes.memset(start, 0, end - start)
    else:
        places = {"all": (0, b"\xff" * (end - start)), "magic": (0, b"x"), "turn": (80, bytes(8))}
        places |= {
            "next": (80, b"\x09"),
            "message": (88, b"\x77"),
            "written": (120, b"\xff" * 7),
            "ring": (12288, b"\xff" * 4096),
        }
        place, data = places[how]
        with open(line[-1], "r+b") as file:
            file.seek(place)
            file.write(data)
    DEEDS[then](*words)


def spy(*files: str) -> None:
    """Say who this is, and which of the files it can read."""
    print(os.getuid(), os.getgid(), os.getgroups())
    for file in (f"/proc/{os.getppid()}/environ", *files):
        try:
            with open(file, "rb") as opened:
                opened.read()
            print("read", file)
        except PermissionError:
            print("refused", file)


def fork_on() -> None:
    """Start processes until there may be no more; they end with the sandbox."""
    count = 0
    try:
        while True:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            count += 1
    except BlockingIOError:
        print(count)


def reject() -> None:
    """Raise from a cause."""
    try:
        {}["total"]
    except KeyError as error:
        raise OrderRejected("order 17 has no total") from error


def recurse() -> None:
    """Recurse in Python: an exception, not a crash."""
    recurse()


def shout(size: str) -> None:
    """Print more than is kept."""
    print("x" * int(size) + "the end")


def native_print() -> None:
    """Print past Python."""
    os.write(1, b"from native code\n")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def unprintable() -> None:
    """Raise what cannot be printed."""
    raise Unprintable


def fsize() -> None:
    """Exceed a limit that the handler has set itself."""
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    spin()


DEEDS = {
    "ok": lambda *_: None,
    "sleep": lambda seconds: time.sleep(float(seconds)),
    "kill": kill,
    "kill_parent": kill_parent,
    "abort": os.abort,
    "segfault": lambda: ctypes.string_at(0),
    "overflow": overflow,
    "_exit": lambda code: os._exit(int(code)),
    "exit": lambda code: sys.exit(int(code)),
    "allocate": allocate,
    "spin": spin,
    "deaf": deaf,
    "close_pipes": close_pipes,
    "swap_pipes": swap_pipes,
    "fork_and_die": fork_and_die,
    "fork_and_return": fork_and_return,
    "fork_and_exit": fork_and_exit,
    "grandchild": grandchild,
    "escape": escape,
    "wreck": wreck,
    "spy": spy,
    "fork_on": fork_on,
    "late": late,
    "doomed": doomed,
    "reject": reject,
    "recurse": recurse,
    "shout": shout,
    "native_print": native_print,
    "unprintable": unprintable,
    "fsize": fsize,
    "pid": lambda: print(os.getpid()),
    "discard": lambda: Discard("not for us"),
    "move": lambda address: MoveTo(address, "wrong shop"),
    "rollback": lambda: Rollback("later"),
    "end_conversation": lambda: EndConversation("cannot go on"),
    "end_normally": EndConversation,
    "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt()),
}
