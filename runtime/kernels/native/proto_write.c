/* Columns to messages of Protobuf: runtime/kernels/proto_write.py has the meaning of programs and the twin.

   Messages are written from their last byte to their first, and the last message first, so that the size of what is within a
   message is known where it has to stand. */

#include "written.h"

#define NODE 8
#define DEEPEST 100

enum { MESSAGE, FIELD, REPEATED, VARINT, ZIGZAG, FIXED, BYTES, TIMESTAMP, OPERATIONS };
enum { OPERATION, OF, A, B, C, D, FIRST, CHILDREN };
enum { FINE, UNDECLARED, MISSIZED };
#define FULL (-1)
#define BROKEN (-2)

struct walk {
    const uint8_t *given;
    const int64_t *nodes, *links, *columns;
    uint8_t *begin, *at;
    int64_t node, fuel;
    int depth;
};

static int put(struct walk *w, const void *from, int64_t length)
{
    if (length > w->at - w->begin)
        return FULL;
    w->at -= length;
    if (length)
        memcpy(w->at, from, (size_t)length);
    return FINE;
}

static int put_varint(struct walk *w, uint64_t value)
{
    uint8_t bytes[10];
    int length = 0;
    do {
        bytes[length++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    return put(w, bytes, length);
}

/* What was put in front of `behind`: its length. */
static int put_length(struct walk *w, const uint8_t *behind)
{
    int64_t length = behind - w->at;
    return length > INT32_MAX ? MISSIZED : put_varint(w, (uint64_t)length);
}

static int run(struct walk *w, int64_t number, int64_t i, int skips_zero);

static int run_children(struct walk *w, const int64_t *node, int64_t i)
{
    int failed = FINE;
    if (++w->depth > DEEPEST)
        return BROKEN;
    for (int64_t n = node[CHILDREN]; !failed && n-- > 0;)
        failed = run(w, w->links[node[FIRST] + n], i, 0);
    w->depth--;
    return failed;
}

/* A value in front of what is there; `skips_zero`: nothing, where it is 0 or empty. Gives SKIPPED then. */
#define SKIPPED 100
static int run_value(struct walk *w, const int64_t *node, int64_t i, int skips_zero)
{
    const int64_t *column = w->columns + node[OF] * COLUMN;
    const uint8_t *behind = w->at;
    int valid = column[VALID_AT] < 0 || w->given[column[VALID_AT] + i];
    int failed;
    if (node[OPERATION] == MESSAGE) {
        failed = valid ? run_children(w, node, i) : FINE;
        return failed ? failed : put_length(w, behind);
    }
    if (!valid)
        return UNDECLARED;
    const uint8_t *value = w->given + column[VALUES_AT] + i * (column[WIDTH] < 0 ? 8 : column[WIDTH]);
    if (node[OPERATION] == BYTES) {
        int64_t from = number_at(value, 8), to = number_at(value + 8, 8);
        if (from < 0 || from > to || to > column[DATA_SIZE])
            return BROKEN;
        if (skips_zero && from == to)
            return SKIPPED;
        failed = put(w, w->given + column[DATA_AT] + from, to - from);
        return failed ? failed : put_length(w, behind);
    }
    int64_t given = number_at(value, column[WIDTH]);
    if (skips_zero && given == 0)
        return SKIPPED;
    switch (node[OPERATION]) {
    case VARINT:
        return put_varint(w, (uint64_t)given);
    case ZIGZAG:
        return put_varint(w, (uint64_t)given << 1 ^ (given < 0 ? UINT64_MAX : 0));
    case FIXED: {
        uint8_t bytes[8];
        for (int n = 0; n < column[WIDTH]; n++)
            bytes[n] = (uint8_t)((uint64_t)given >> 8 * n);
        return put(w, bytes, column[WIDTH]);
    }
    default: { /* TIMESTAMP: A units in a second, B nanoseconds in a unit. */
        int64_t seconds = given / node[A] - (given % node[A] < 0), nanos = (given - seconds * node[A]) * node[B];
        if (nanos) {
            failed = put_varint(w, (uint64_t)nanos);
            if (!failed)
                failed = put_varint(w, 2 << 3);
            if (failed)
                return failed;
        }
        if (seconds) {
            failed = put_varint(w, (uint64_t)seconds);
            if (!failed)
                failed = put_varint(w, 1 << 3);
            if (failed)
                return failed;
        }
        return put_length(w, behind);
    }
    }
}

/* A field (A: its tag; B: 0 or empty is not written; C: it must be there) or all of a repeated one (B: packed). */
static int run(struct walk *w, int64_t number, int64_t i, int skips_zero)
{
    const int64_t *node = w->nodes + number * NODE;
    const int64_t *column = w->columns + node[OF] * COLUMN;
    int failed = FINE;
    w->node = number;
    if (--w->fuel < 0 || !within(i, column[COUNT]))
        return BROKEN;
    if (node[OPERATION] != FIELD && node[OPERATION] != REPEATED)
        return run_value(w, node, i, skips_zero);
    if (column[VALID_AT] >= 0 && !w->given[column[VALID_AT] + i])
        return node[C] ? UNDECLARED : FINE;
    int64_t value = w->links[node[FIRST]];
    if (node[OPERATION] == FIELD) {
        failed = run(w, value, i, node[B] != 0);
        return failed == SKIPPED ? FINE : failed ? failed : put_varint(w, (uint64_t)node[A]);
    }
    const uint8_t *at = w->given + column[VALUES_AT] + i * 8, *behind = w->at;
    int64_t from = number_at(at, 8), to = number_at(at + 8, 8);
    if (from < 0 || from > to)
        return BROKEN;
    if (from == to)
        return FINE;
    for (int64_t n = to; n-- > from;) {
        failed = run(w, value, n, 0);
        if (!failed && !node[B])
            failed = put_varint(w, (uint64_t)node[A]);
        if (failed)
            return failed;
    }
    if (node[B]) {
        failed = put_length(w, behind);
        if (!failed)
            failed = put_varint(w, (uint64_t)node[A]);
    }
    return failed;
}

static int is_program(
    const int64_t *nodes, int64_t nodes_count, const int64_t *links, int64_t links_size, const int64_t *columns,
    int64_t columns_count)
{
    for (int64_t i = 0; i < links_size; i++)
        if (!within(links[i], nodes_count))
            return 0;
    for (const int64_t *node = nodes; node < nodes + nodes_count * NODE; node += NODE) {
        int64_t operation = node[OPERATION];
        if (!within(operation, OPERATIONS) || !within(node[FIRST], links_size + 1) || node[CHILDREN] < 0 ||
            node[CHILDREN] > links_size - node[FIRST] || !within(node[OF], columns_count))
            return 0;
        int is_field = operation == FIELD || operation == REPEATED;
        if (is_field && node[CHILDREN] != 1)
            return 0;
        for (int64_t i = 0; i < node[CHILDREN]; i++) {
            int64_t inner = nodes[links[node[FIRST] + i] * NODE + OPERATION];
            int is_inner_field = inner == FIELD || inner == REPEATED;
            if (is_field ? is_inner_field : operation == MESSAGE ? !is_inner_field : 1)
                return 0;
        }
        int64_t width = columns[node[OF] * COLUMN + WIDTH];
        if (operation == BYTES || operation == REPEATED            ? width != -1
            : operation == VARINT || operation == ZIGZAG           ? width < 1 || width > 8
            : operation == FIXED                                   ? width != 4 && width != 8
            : operation == TIMESTAMP                               ? width != 8 || node[A] < 1 || node[A] > 1000000000 || node[B] < 1 || node[B] > 1000000000
                                                                   : 0)
            return 0;
    }
    return 1;
}

/* Writes messages from the last to the first, until all are there or `out` is full. cursor[0]: how many are still to be
   written; cursor[1]: the bytes of `out`, from its end, that are used. `used` tells for each message how many were used when it
   was there. `prefix` stands in front of each. Gives cursor[0]; cursor[2] is the reason for which the message before it cannot
   be written, with the node above its lowest 8 bits. */
KERNEL sqlengine_proto_write(
    const uint8_t *given, int64_t size, const int64_t *nodes, int64_t nodes_size, const int64_t *links, int64_t links_size,
    const int64_t *columns, int64_t columns_size, const uint8_t *prefix, int64_t prefix_size, uint8_t *out, int64_t out_size,
    int64_t *used, int64_t messages, int64_t *cursor, int64_t cursor_size)
{
    int64_t count = columns_size / COLUMN, nodes_count = nodes_size / NODE;
    if (columns_size % COLUMN || nodes_size % NODE || !nodes_count || cursor_size != 3 || !within(cursor[0], messages + 1) ||
        !within(cursor[1], out_size + 1))
        return MISFIT;
    if (!are_columns(columns, count, size) || !is_program(nodes, nodes_count, links, links_size, columns, count) ||
        nodes[OPERATION] != MESSAGE)
        return MISFIT;
    struct walk w = {given, nodes, links, columns, out, out + out_size - cursor[1], 0, 0, 0};
    int64_t left = cursor[0];
    cursor[2] = FINE;
    for (; left > 0; left--) {
        w.fuel = (out_size + size + 1) * 2 > INT64_MAX / nodes_count ? INT64_MAX : (out_size + size + 1) * 2 * nodes_count;
        w.depth = 0;
        if (!within(left - 1, columns[nodes[OF] * COLUMN + COUNT]))
            return OUTSIDE(left - 1);
        int failed = run_children(&w, nodes, left - 1);
        if (!failed)
            failed = put(&w, prefix, prefix_size);
        if (failed == FULL)
            break;
        if (failed == BROKEN)
            return OUTSIDE(left - 1);
        if (failed) {
            cursor[2] = failed | w.node << 8;
            break;
        }
        cursor[1] = out + out_size - w.at;
        used[left - 1] = cursor[1];
    }
    cursor[0] = left;
    return left;
}
