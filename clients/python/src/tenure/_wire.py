"""HTTP to the agent, over a Unix socket, to loopback, or with TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import socket
import ssl
import struct
import weakref
from ipaddress import ip_address
from typing import Any, Dict, Iterator, List, Optional
from urllib.parse import SplitResult, urlsplit

from ._clock import boottime_ns
from ._errors import Closed, HeldByAnother, LeaseLost, Refused, Unreachable

#: For one answer that is not waited for.
_PATIENCE = 10.0
#: The longest answer that is read: far more than a page of records has.
_MOST_BYTES = 256 << 20
#: The longest request that an agent takes, unless it was built otherwise.
_MOST_ASKED = 64 << 10
#: What is read at once of an answer that does not say how long it is.
_PIECE = 1 << 20
#: Those of this process.
_wires: "weakref.WeakSet[Wire]" = weakref.WeakSet()
#: The agent has closed the connection: it was full, or stopped. With TLS, that may be in the middle of the handshake.
_CLOSED = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


def _forked() -> None:
    """A connection ends for the agent when nobody has it open, so a child of this process must not keep it."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for wire in list(_wires):
        wire._leave_to_parent(nothing)
    os.close(nothing)


os.register_at_fork(after_in_child=_forked)


def check_wait(wait: Optional[float]) -> None:
    """Raises `ValueError` unless it is a time to wait.

    Some libraries mean "for ever" by -1. A wait that is over at once would surprise their users.
    """
    if wait is not None and not wait >= 0:
        raise ValueError(f"wait is {wait!r}; it must be seconds, 0 for one try, or None to wait for ever")


def check_short_wait(wait: Optional[float]) -> None:
    """Raises `ValueError` unless it is a time to wait for a unit. That ends: a worker that does not ask again leaves its fleet."""
    if wait is None or not 0 <= wait < math.inf:
        raise ValueError(f"wait is {wait!r}; it must be seconds, a minute at the most: ask again after that, or go by `units` or `run`")


def default_address() -> str:
    """`TENURE_AGENT`, or the socket at which `tenure serve` listens unless told otherwise."""
    named = os.environ.get("TENURE_AGENT")
    if named:
        return named
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    directory = os.path.join(runtime, "tenure") if runtime else _in_tmp()
    if not runtime and _is_of_another(directory):
        raise Unreachable(f"{directory} is another user's, who could give out leases there; name the agent by TENURE_AGENT")
    return "unix:" + os.path.join(directory, "agent.sock")


def _in_tmp() -> str:
    return f"/tmp/tenure-{os.geteuid()}"


def _is_of_another(directory: str) -> bool:
    """Whoever comes first can make a directory in /tmp, or a link there."""
    try:
        return os.lstat(directory).st_uid not in (os.geteuid(), 0)
    except OSError:
        return False


def _check_listener(connected: socket.socket, path: str) -> None:
    """In /tmp another user may have come first, also since the address was chosen."""
    if os.path.dirname(path) != _in_tmp() or not hasattr(socket, "SO_PEERCRED"):
        return
    _pid, uid, _gid = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid not in (os.geteuid(), 0):
        raise PermissionError(f"the user with the id {uid} listens at {path}, who could give out leases there; name the agent by TENURE_AGENT")


def trust(address: str, ca_file: Optional[str]) -> Optional[ssl.SSLContext]:
    """Whom an agent with TLS is believed by: the authorities in the file, or those of the system. None without TLS."""
    parts = _parted(address)
    if parts is None or parts.scheme != "https":
        if ca_file is not None:
            raise ValueError(f"{address!r} is no address with TLS, which ca_file is for: write https://HOST:PORT")
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(f"{ca_file}: {error}; ca_file is to be a PEM file of certificates") from error


def checked_token(token: Optional[str]) -> Optional[str]:
    """As its agent reads it: a file of one ends with a newline, which is no part of it. What is in no header is refused here, since others would show it."""
    token = (token or "").strip()
    if not all("!" <= character <= "~" for character in token):
        raise ValueError("the token has other characters than visible ASCII; give the one token that is in its agent's file, by token= or TENURE_TOKEN")
    return token or None


def is_socket(address: str) -> bool:
    """Whether it is a Unix socket's."""
    return address.startswith("unix:")


def _parted(address: str) -> Optional[SplitResult]:
    """None for a Unix socket. Whether there is TLS is read here alone: the scheme is as it was understood, however it was written."""
    if is_socket(address):
        return None
    if "://" not in address and "/" in address:
        raise ValueError(f"{address!r} is no agent's address; write unix:{address} for a socket")
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{address!r} is no agent's address: write unix:PATH, http://127.0.0.1:PORT or https://HOST:PORT")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{address!r} has no port of 1 to 65535: write http://127.0.0.1:PORT or https://HOST:PORT")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise ValueError(f"{address!r} is plain text over a network, where others read the token: write https://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{address!r} has more than a host and a port, which no agent's address has: write http://127.0.0.1:PORT or https://HOST:PORT")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        _check_listener(self.sock, self._path)


def _connection(address: str, timeout: Optional[float], tls: Optional[ssl.SSLContext]) -> http.client.HTTPConnection:
    """Not connected yet."""
    parts = _parted(address)
    if parts is None:
        return _UnixConnection(address[len("unix:") :], timeout)
    host, port = str(parts.hostname), parts.port
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout)
    if tls is None:
        raise ValueError(f"{address!r} is an address with TLS, and nobody is named whom to believe it by")
    return http.client.HTTPSConnection(host, port, timeout=timeout, context=tls)


def _look_after(connected: socket.socket) -> None:
    """The kernel asks the other host whether it knows the connection still. One that was started anew does not, though its agent answers others."""
    if connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # In seconds, where the system has them.
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _shut(opened: Optional[socket.socket], how: int) -> None:
    if opened is not None:
        try:
            # Of a connection with TLS, too: its own method would make it one without, for whoever reads from it.
            socket.socket.shutdown(opened, how)
        except OSError:
            pass


def _read(answer: http.client.HTTPResponse) -> Optional[bytes]:
    """The body of an answer; None if it is longer than any."""
    if answer.length is not None:
        # What is said to come is no reason to take memory for it.
        return answer.read() if answer.length <= _MOST_BYTES else None
    pieces: List[bytes] = []
    length = 0
    while length <= _MOST_BYTES:
        piece = answer.read(_PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        length += len(piece)
    return None


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """What an answer lacks, or has of another kind, is raised as an `AgentError`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise Refused(f"the agent's answer can't be read ({type(error).__name__}: {error})", "unreadable", 200) from error


class Wire:
    """One connection, made when it is needed. For one thread at a time."""

    def __init__(
        self, address: str, token: Optional[str], timeout: Optional[float], tls: Optional[ssl.SSLContext] = None
    ) -> None:
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._connection = _connection(address, timeout, tls)
        self._address, self._token, self._timeout, self._tls = address, token, timeout, tls
        self._process = os.getpid()
        self._is_asking = False
        self.is_aborted = False
        _wires.add(self)

    @property
    def is_open(self) -> bool:
        """Whether there is a connection. The agent may have closed it."""
        return self._connection.sock is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is one, and no request is under way on it: an exception of a signal may have ended who waited for the answer."""
        return self.is_open and not self._is_asking

    def close(self) -> None:
        if self._is_asking and os.getpid() == self._process:
            # The agent hears that nobody wants its answer, also while a child of this process has the connection open.
            _shut(self._connection.sock, socket.SHUT_RDWR)
        self._is_asking = False
        self._connection.close()

    def given_on(self) -> Wire:
        """Its connection, as a wire by itself: whoever aborts this one then ends nothing of that."""
        other = Wire(self._address, self._token, self._timeout, self._tls)
        other._connection, self._connection = self._connection, other._connection
        return other

    def _leave_to_parent(self, nothing: int) -> None:
        """In a forked child, whose copy of the connection ends here without a sign. The number stays taken, so that a late close hits nothing else."""
        opened = self._connection.sock
        if opened is not None and opened.fileno() >= 0:
            os.dup2(nothing, opened.fileno(), inheritable=False)
            opened.close()

    def set_timeout(self, timeout: float) -> None:
        """For all that is asked from now on."""
        self._timeout = self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)

    def abort(self) -> None:
        """Ends what another thread waits for, or is about to: the agent hears that nobody wants its answer.

        An answer that is on its way still arrives: what it gives has to be given back.
        """
        self.is_aborted = True
        _shut(self._connection.sock, socket.SHUT_WR)

    def ask(
        self, method: str, path: str, body: Optional[Dict[str, Any]] = None, *, patience: Optional[float] = None
    ) -> Dict[str, Any]:
        """What is answered. A connection that the agent has closed meanwhile is made anew, if nothing came of the request.

        `patience`: for how many seconds the answer may be waited for, if the agent shows in each timeout that it is there. Otherwise one timeout is all.
        """
        data = None if body is None else json.dumps(body)
        is_new = self._connection.sock is None
        try:
            if is_new:
                self._connection.connect()
                _look_after(self._connection.sock)
            # Whoever aborts after this finds a connection to end.
            if self.is_aborted:
                raise ConnectionAbortedError("nobody waits for it any more")
            self._is_asking = True
            cut = self._send(method, path, data)
            try:
                answer = self._answer(patience)
                status, text = answer.status, _read(answer)
            except (OSError, http.client.HTTPException):
                # Without an answer, that is what has happened.
                if cut is not None:
                    raise cut
                raise
            self._is_asking = False
            if cut is not None:
                self.close()
        except _CLOSED as error:
            self.close()
            # An agent that can't say so says it in this way, and no further try would end otherwise.
            if data is not None and len(data) > _MOST_ASKED:
                raise Refused(f"a request has {_MOST_ASKED} bytes at most, and this one has {len(data)}", "too_large", 413) from error
            if is_new:
                raise Closed(f"the agent at {self._address} has closed the connection: {error}") from error
            return self.ask(method, path, body, patience=patience)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise Unreachable(
                f"the agent at {self._address} is not believed ({error.verify_message}); name its authority by ca_file, or by SSL_CERT_FILE"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unreachable(
                f"no agent answers at {self._address} ({error}); `tenure serve` starts one, TENURE_AGENT names another"
            ) from error
        if text is None:
            self.close()
            raise Refused(f"the agent's answer has more than {_MOST_BYTES} bytes (status {status})", "unreadable", status)
        if status == 204:
            return {}
        try:
            told: Dict[str, Any] = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused(f"the agent's answer is no JSON (status {status})", "unreadable", status) from None
        # A relay or a proxy may have answered in the agent's place.
        if not isinstance(told, dict):
            raise Refused(f"the agent's answer is no object (status {status})", "unreadable", status)
        if status < 300:
            return told
        message, code = str(told.get("message")), str(told.get("code"))
        if code == "held":
            raise HeldByAnother(message, told.get("holder"), told.get("fence"))
        if status in (404, 410):
            raise LeaseLost(message)
        raise Refused(message, code, status)

    def _send(self, method: str, path: str, data: Optional[str]) -> Optional[OSError]:
        """By what the agent has closed the connection meanwhile. It may have answered before, as it refuses a wrong token, or a long body."""
        try:
            self._connection.request(method, path, data, self._headers)
            return None
        except _CLOSED as error:
            return error

    def _answer(self, patience: Optional[float]) -> http.client.HTTPResponse:
        """The begin of the answer to what was sent."""
        if patience is None or self._timeout is None:
            return self._connection.getresponse()
        end_ns = boottime_ns() + int(patience * 1e9)
        left = patience
        while True:
            self._connection.sock.settimeout(min(self._timeout, left))
            try:
                return self._connection.getresponse()
            except socket.timeout:
                left = (end_ns - boottime_ns()) / 1e9
                if left <= 0 or not self._is_there():
                    raise

    def _is_there(self) -> bool:
        """Whether the agent answers a connection that waits for nothing."""
        other = _connection(self._address, _PATIENCE, self._tls)
        try:
            other.request("GET", "/healthz")
            other.getresponse().read()
            return True
        except _CLOSED:
            # An agent that has no place for one more connection closes it.
            return True
        except (OSError, http.client.HTTPException):
            return False
        finally:
            other.close()
