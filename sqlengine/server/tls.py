"""The certificate of a server, for all of its ports: read from files, and read again when they were renewed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from dataclasses import dataclass
from typing import NoReturn

from runtime.core.errors import OptionError
from runtime.core.logs import Log

__all__ = ["Certificate", "Tls", "end_point"]

_log = Log("server")
_LOOK_SECONDS = 10.0
_HASHES = {
    bytes.fromhex("2a864886f70d01010c"): "sha384",  # sha384WithRSAEncryption
    bytes.fromhex("2a864886f70d01010d"): "sha512",
    bytes.fromhex("2a864886f70d01010e"): "sha224",
    bytes.fromhex("2a8648ce3d040301"): "sha224",  # ecdsa-with-SHA224
    bytes.fromhex("2a8648ce3d040303"): "sha384",
    bytes.fromhex("2a8648ce3d040304"): "sha512",
}
"""By the signature of a certificate, as an object identifier; every other one has SHA-256, or is too weak for its own."""
_OWN_HASH = (bytes.fromhex("2b6570"), bytes.fromhex("2b6571"), bytes.fromhex("2a864886f70d01010a"))
"""Ed25519, Ed448 and RSASSA-PSS say no hash, so that nothing is defined for them."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it was at a time. `binding`: by which a client of SCRAM knows it (`tls-server-end-point`, RFC 5929);
    None where that is not defined."""

    context: ssl.SSLContext
    binding: bytes | None


class Tls:
    """How connections are encrypted.

    Args:
        cert, key: PEM files; the key may stand in the same one (None).
    Raises OptionError when they cannot be used.
    """

    def __init__(self, cert: str, key: str | None) -> None:
        self._cert = cert
        self._key = key
        self._stamp = self._look()
        self._now: dict[tuple[str, ...], Certificate] = {}
        self._chain = self._read()

    def certificate(self, *protocols: str) -> Certificate:
        """The certificate as it is now, for who speaks one of these protocols (ALPN)."""
        found = self._now.get(protocols)
        if found is None:
            context = _context(self._cert, self._key)
            if protocols:
                context.set_alpn_protocols(protocols)
            found = self._now[protocols] = Certificate(context, self._chain)
        return found

    def listening(self, *protocols: str) -> ssl.SSLContext:
        """A context for a port that encrypts from the first byte: each connection gets the certificate of its time."""
        context = _context(self._cert, self._key)
        if protocols:
            context.set_alpn_protocols(protocols)

        def newest(connection: ssl.SSLObject, name: str | None, asked: ssl.SSLContext) -> None:
            connection.context = self.certificate(*protocols).context

        context.sni_callback = newest  # type: ignore[assignment]
        return context

    async def follow(self) -> NoReturn:
        """Look again and again whether the files were renewed."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.refresh()

    def refresh(self) -> bool:
        """Read the files again where they are others; tells whether they are used. What cannot be used is logged, and the
        certificate before stays."""
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return False
            chain = self._read()
        except OptionError as error:
            _log.warning("the certificate was not renewed: %s", error.message)
            return False
        self._stamp, self._chain, self._now = stamp, chain, {}
        _log.info("the certificate %s was renewed", self._cert)
        return True

    def _read(self) -> bytes | None:
        """Try the files; gives the binding of the certificate."""
        _context(self._cert, self._key)
        with open(self._cert, encoding="ascii", errors="replace") as opened:
            return end_point(opened.read())

    def _look(self) -> tuple[tuple[int, int, int], ...]:
        """By which a change of the files is known."""
        try:
            found = [os.stat(path) for path in (self._cert, self._key or self._cert)]
        except OSError as error:
            raise _unusable(self._cert, error) from error
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)


def _context(cert: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise _unusable(cert, error) from error
    return context


def _no_password() -> str:
    raise ValueError("the key has a password")


def _unusable(cert: str, error: Exception) -> OptionError:
    what = getattr(error, "strerror", None) or type(error).__name__
    return OptionError(
        f"the certificate {cert} cannot be used: {what}",
        code="E1500",
        hint="--tls-cert and --tls-key are PEM files of a certificate and its key, without a password",
    )


def end_point(pem: str) -> bytes | None:
    """The hash of the first certificate of a PEM text that clients bind a password's proof to; None where none is defined,
    or the text has no certificate.

    Source: RFC 5929, 4.1: the hash of the certificate's signature, but SHA-256 for MD5 and SHA-1.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    if start < 0 or stop < 0:
        return None
    try:
        der = ssl.PEM_cert_to_DER_cert(pem[start : stop + len(end)])
        # Certificate ::= SEQUENCE { tbsCertificate, SEQUENCE { algorithm OBJECT IDENTIFIER, .. }, .. }
        inside = _inside(der, 0, 0x30)[0]
        algorithm = _inside(der, _inside(der, inside, 0x30)[1], 0x30)[0]
        first, last = _inside(der, algorithm, 0x06)
    except (ValueError, IndexError):
        return None
    identifier = der[first:last]
    if identifier in _OWN_HASH:
        return None
    return hashlib.new(_HASHES.get(identifier, "sha256"), der).digest()


def _inside(der: bytes, at: int, tag: int) -> tuple[int, int]:
    """Where the contents of a value of DER begin and end."""
    if der[at] != tag:
        raise ValueError(tag)
    length, at = der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, at = int.from_bytes(der[at : at + size], "big"), at + size
    if at + length > len(der):
        raise ValueError(length)
    return at, at + length
