"""Messages of Protobuf whose inner messages come in pieces: what counts is all pieces together, as if they stood one behind the
other (https://protobuf.dev/programming-guides/encoding/#last-one-wins)."""

from __future__ import annotations

from runtime.kernels.programs import NODE, Program
from runtime.kernels.proto_programs import Read, Wire
from runtime.kernels.proto_read_twin import Stop, read_tag, read_varint, skip, wire_of
from runtime.kernels.proto_write_twin import varint

__all__ = ["merged"]


def merged(program: Program, message: bytes) -> bytes:
    """The message with each inner one in one piece; the message itself where it is malformed, so that its reader says why. Field
    by field."""
    merging = _Merging(program.nodes.reshape(-1, NODE).tolist(), program.links.tolist())
    try:
        return merging.whole(0, message)
    except Stop:
        return message


class _Merging:
    def __init__(self, nodes: list[list[int]], links: list[int]) -> None:
        self._nodes = nodes
        self._links = links

    def whole(self, number: int, message: bytes) -> bytes:
        node = self._nodes[number]
        children = {self._nodes[c][2]: self._nodes[c] for c in self._links[node[6] : node[6] + node[7]]}
        kept: list[bytes] = []
        pieces: dict[int, list[bytes]] = {}
        places: dict[int, int] = {}
        members: dict[int, int] = {}
        at, end = 0, len(message)
        while at < end:
            tag_at = at
            field, wire, at = read_tag(message, at, end)
            value_at = at
            at = skip(message, at, end, field, wire, 0)
            child = children.get(field)
            if child is not None and child[3] and self._suits(child, wire):
                before = members.setdefault(child[3], field)
                if before != field:
                    if before in pieces:
                        del pieces[before]
                        kept[places.pop(before)] = b""
                    members[child[3]] = field
            inner = -1 if child is None or wire != Wire.LENGTH else self._message(child)
            if inner < 0:
                kept.append(message[tag_at:at])
                continue
            _, begin = read_varint(message, value_at, end)
            piece = message[begin:at]
            if child is not None and child[0] == Read.REPEATED:
                kept.append(_field(field, self.whole(inner, piece)))
            else:
                pieces.setdefault(field, []).append(piece)
                if field in places:
                    kept[places[field]] = b""
                places[field] = len(kept)
                kept.append(b"")
        for field, place in places.items():
            inner = self._message(children[field])
            joined = b"".join(pieces[field])
            kept[place] = _field(field, self.whole(inner, joined) if self._nodes[inner][0] == Read.MESSAGE else joined)
        return b"".join(kept)

    def _message(self, child: list[int]) -> int:
        """What reads the message that a field is, or -1."""
        if child[0] == Read.OTHER:
            return -1
        value = self._links[child[6]]
        kinds = (Read.MESSAGE,) if child[0] == Read.REPEATED else (Read.MESSAGE, Read.TIMESTAMP)
        return value if self._nodes[value][0] in kinds else -1

    def _suits(self, child: list[int], wire: int) -> bool:
        """Whether the field of a oneof is written as its member is."""
        if child[0] == Read.OTHER:
            return wire == child[5]
        return wire == wire_of(self._nodes[self._links[child[6]]])


def _field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | Wire.LENGTH) + varint(len(value)) + value
