# Talking to something from inside a network namespace without starting a program there.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import concurrent.futures
import ctypes
import http.client
import os
import socket
import ssl
import urllib.parse

from ..core.deadline import Deadline
from .description import ANSWER_LIMIT
from .network import NAMESPACE_DIRECTORY

_CLONE_NEWNET = 0x40000000  # sched.h


def _enter(namespace):
    # The network namespace belongs to the thread, and a socket to the namespace of the thread that made it; the process stays where it is.
    handle = os.open(os.path.join(NAMESPACE_DIRECTORY, namespace), os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(handle)


def answer(url, timeout=ANSWER_LIMIT):
    """The HTTP status of a GET, for tcp://host:port the length of what the server says first, or the error in words.

    Certificates are not checked: this only asks whether somebody answers.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "tcp":
        try:
            with socket.create_connection((parts.hostname, parts.port), timeout) as connection:
                connection.settimeout(timeout)
                return len(connection.recv(256)) or "the connection was closed without a word"
        except OSError as error:
            return str(error)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()


def wait_answers(namespace, urls, seconds, next_step=None, each=None):
    """Wait until every URL gives an HTTP answer, seen from inside the namespace; DeadlineExceeded names the silent ones. Returns {url: status}.

    `each` is called after every round without all answers and may raise.
    """
    if not urls:
        return {}
    with concurrent.futures.ThreadPoolExecutor(min(8, len(urls)), initializer=_enter, initargs=(namespace,)) as pool:

        def probe():
            seen = dict(zip(urls, pool.map(answer, urls)))
            return all(isinstance(status, int) for status in seen.values()), seen

        return Deadline(seconds, "every address of the lab answers", next_step=next_step).wait(
            probe,
            interval=0.3,
            each=each,
            describe=lambda seen: ", ".join(
                f"{url}: {status}" for url, status in seen.items() if not isinstance(status, int)
            ),
        )
