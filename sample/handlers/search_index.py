"""The sample's fourth consumer, a handler: it puts events into a search index, with a native library that is not sound.

Each kind of event that kills it does so in its own way; the others are indexed.
"""

import ctypes
import json
import os
import signal
import time

_index = {}


def handle(message):
    """Index the event; for some kinds of event, fail or die of it."""
    event = message.address.rpartition(".")[2]
    words = json.loads(message.payload)
    print(f"indexing {event} {message.message_id}, attempt {message.attempt}")
    trouble = _TROUBLES.get(event)
    if trouble is not None:
        trouble(message, words)
    _index[message.id] = sorted(words)


def _read_past_the_end(_message, words):
    print(f"stemming {len(words)} fields with libstem 2.1", flush=True)
    ctypes.string_at(1)


def _give_up_at_once(message, _words):
    print(f"license check failed for {message.message_id}", flush=True)
    os._exit(3)


def _abort(_message, _words):
    print("libstem: stem.c:318: stem_word: Assertion `end > start' failed.", flush=True)
    os.abort()


def _take_all_memory(_message, words):
    print(f"expanding {len(words)} fields into n-grams", flush=True)
    grams = []
    while True:
        grams.append(bytearray(16 * 1024 * 1024))


def _never_end(_message, _words):
    print("matching ^(a+)+$", flush=True)
    while True:
        pass


def _wait_for_ever(_message, _words):
    print("waiting for the index lock", flush=True)
    time.sleep(3600)


def _be_killed_once(message, _words):
    # As if the kernel had taken the memory back: the next attempt, alone, is delivered.
    if message.attempt == 1:
        print("merging segments", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def _refuse(message, _words):
    raise ValueError(f"no mapping for the field 'pages' of {message.message_id}")


def _be_busy_at_first(message, _words):
    if message.attempt < 3:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except ConnectionRefusedError as error:
            raise RuntimeError("the index does not answer") from error


_TROUBLES = {
    "commit_comment": _read_past_the_end,
    "deploy_key": _give_up_at_once,
    "meta": _abort,
    "repository_import": _take_all_memory,
    "public": _never_end,
    "status": _wait_for_ever,
    "fork": _be_killed_once,
    "gollum": _refuse,
    "ping": _be_busy_at_first,
}
