"""Requests that strangers cause: to public addresses only, and to the very address that was checked.

A name is resolved once; every address that it has must be public, and the connection is made to one of them
and not to the name again, so that a name that changes its mind (DNS rebinding) gains nothing. Redirects are
not followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_USUAL_PORTS = {"http": 80, "https": 443}
_MAX_URL = 2048
_PART = 1 << 16
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


class NotAllowedError(ValueError):
    """A URL that must not be asked."""


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    body: bytes


def is_public(address: Address) -> bool:
    """Whether an address is on the open internet, those that are wrapped in it too."""
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if any(address in network for network in _NAT64) or int(address) >> 32 == 0:  # IPv4-compatible
            wrapped.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        inner = [one for one in wrapped if one is not None]
        if inner:
            return all(is_public(one) for one in inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class Outgoing:
    """Asks URLs that strangers name.

    Args:
        hosts: If given, only these, as HOST or HOST:PORT; other ports than the usual ones must be named so.
        private_hosts: Hosts that may have private addresses; they count as named.
        resolve: Finds addresses of a host and port, as `socket.getaddrinfo` does.
    """

    def __init__(
        self,
        hosts: Sequence[str] = (),
        private_hosts: Sequence[str] = (),
        *,
        resolve: Callable[..., list[tuple[object, ...]]] | None = None,
    ) -> None:
        self._hosts = {host.lower() for host in (*hosts, *private_hosts)} if hosts else set()
        self._private = {host.lower() for host in private_hosts}
        self._resolve = resolve or socket.getaddrinfo

    def check(self, url: str) -> tuple[SplitResult, str, int]:
        """The parts of a URL, its host and port.

        Raises:
            NotAllowedError: Its form or host is not allowed; nothing is resolved for that.
        """
        if (
            len(url) > _MAX_URL
            or not url.isascii()
            or any(letter <= " " or letter == "\x7f" for letter in url)
        ):
            raise NotAllowedError("the URL is too long, or has characters that a URL has not")
        try:
            parts = urlsplit(url)
            port = parts.port or _USUAL_PORTS.get(parts.scheme, 0)
        except ValueError:
            raise NotAllowedError("it is no URL") from None
        host = (parts.hostname or "").rstrip(".").lower()
        if parts.scheme not in _USUAL_PORTS or not host or "%" in host or "\\" in url:
            raise NotAllowedError("only http and https URLs with a host are asked")
        if parts.username is not None or parts.password is not None:
            raise NotAllowedError("a URL with a user's name in it is not asked")
        named = {host, f"{host}:{port}"}
        if self._hosts and not named & self._hosts:
            raise NotAllowedError(f"the host {host} is not on the list of allowed ones")
        if port != _USUAL_PORTS[parts.scheme] and f"{host}:{port}" not in self._hosts | self._private:
            raise NotAllowedError(
                f"port {port} is not asked unless {host}:{port} is on the list of allowed ones"
            )
        return parts, host, port

    def addresses(self, host: str, port: int) -> list[str]:
        """Addresses to connect to.

        Raises:
            NotAllowedError: The host has none, or one that is not public.
        """
        try:
            found = self._resolve(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise NotAllowedError(f"the host {host} has no address") from None
        addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))  # type: ignore[index]
        if not addresses:
            raise NotAllowedError(f"the host {host} has no address")
        private = {host, f"{host}:{port}"} & self._private
        if not private and not all(is_public(ipaddress.ip_address(one)) for one in addresses):
            raise NotAllowedError(f"the host {host} has a private address")
        return addresses

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = 65_536,
        seconds: float = 10.0,
    ) -> Reply:
        """Ask a URL.

        Args:
            method: Of HTTP.
            url: Where.
            body: What to send.
            headers: What to send with it.
            most: Bytes of the answer; more are an error.
            seconds: For all of it.

        Raises:
            NotAllowedError: The URL must not be asked, or answers with a redirect.
            OSError: It could not be reached, or took too long.
            ValueError: The answer is too long.
        """
        until = time.monotonic() + seconds
        parts, host, port = self.check(url)
        last: OSError | None = None
        for address in self.addresses(host, port)[:3]:
            try:
                raw = socket.create_connection((address, port), timeout=_left(until))
                break
            except OSError as error:
                last = error
        else:
            raise last or OSError(f"{host} could not be reached")
        connection = http.client.HTTPConnection(host, port)
        try:
            connection.sock = raw
            if parts.scheme == "https":
                connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.sock.settimeout(_left(until))
            connection.request(
                method, target, body=body, headers={"User-Agent": "poolsieve", **(headers or {})}
            )
            response = connection.getresponse()
            if 300 <= response.status < 400:
                raise NotAllowedError(f"{host} answers with a redirect, which is not followed")
            content = bytearray()
            while part := response.read1(min(_PART, most + 1 - len(content))):
                content += part
                if len(content) > most:
                    raise ValueError(f"the answer of {host} has more than {most:,} bytes")
                connection.sock.settimeout(_left(until)) if connection.sock else None
            return Reply(response.status, bytes(content))
        except http.client.HTTPException as error:
            raise OSError(f"{host} does not speak HTTP: {type(error).__name__}") from None
        finally:
            raw.close()
            connection.close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer took too long")
    return left
