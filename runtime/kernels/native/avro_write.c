/* Columns to records of Avro: runtime/kernels/avro_write.py has the meaning of programs and the twin. */

#include "written.h"

#define NODE 8
#define DEEPEST 200

enum { GROUP, NULLABLE, INTEGER, FLOAT, DOUBLE, BOOLEAN, BYTES, FIXED, DECIMAL, ITEMS, NOTHING, OPERATIONS };
enum { OPERATION, OF, A, B, C, D, FIRST, CHILDREN };
enum { FINE, UNDECLARED, MISSIZED };
#define FULL (-1)
#define BROKEN (-2)

struct walk {
    const uint8_t *given;
    const int64_t *nodes, *links, *columns;
    uint8_t *at, *end;
    int64_t node, fuel;
    int depth;
};

static int put(struct walk *w, const void *from, int64_t length)
{
    if (length > w->end - w->at)
        return FULL;
    if (length)
        memcpy(w->at, from, (size_t)length);
    w->at += length;
    return FINE;
}

static int put_integer(struct walk *w, int64_t value)
{
    uint64_t rest = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
    uint8_t bytes[10];
    int length = 0;
    do {
        bytes[length++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest);
    return put(w, bytes, length);
}

static int put_little_endian(struct walk *w, uint64_t bits, int width)
{
    uint8_t bytes[8];
    for (int i = 0; i < width; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    return put(w, bytes, width);
}

/* The fewest bytes of two's complement, the highest first; with a size, as many as that. */
static int put_decimal(struct walk *w, const uint8_t *value, int64_t size)
{
    uint64_t words[2];
    memcpy(words, value, 16);
    uint8_t bytes[16], sign = words[1] >> 63 ? 255 : 0;
    for (int i = 0; i < 16; i++)
        bytes[15 - i] = (uint8_t)(words[i / 8] >> 8 * (i % 8));
    int first = 0;
    while (first < 15 && bytes[first] == sign && (bytes[first + 1] & 128) == (sign & 128))
        first++;
    int64_t length = 16 - first;
    if (size < 0) {
        int failed = put_integer(w, length);
        return failed ? failed : put(w, bytes + first, length);
    }
    if (length > size)
        return MISSIZED;
    for (int64_t i = length; i < size; i++)
        if (put(w, &sign, 1))
            return FULL;
    return put(w, bytes + first, length);
}

static int run(struct walk *w, int64_t number, int64_t i)
{
    const int64_t *node = w->nodes + number * NODE;
    const int64_t *column = w->columns + node[OF] * COLUMN;
    int failed = FINE;
    w->node = number;
    if (--w->fuel < 0 || !within(i, column[COUNT]))
        return BROKEN;
    int valid = column[VALID_AT] < 0 || w->given[column[VALID_AT] + i];
    if (node[OPERATION] == NOTHING)
        return FINE;
    if (node[OPERATION] == NULLABLE) {
        failed = put_integer(w, valid ? node[B] : node[A]);
        if (failed || !valid)
            return failed;
        if (++w->depth > DEEPEST)
            return BROKEN;
        failed = run(w, w->links[node[FIRST]], i);
        w->depth--;
        return failed;
    }
    if (!valid)
        return UNDECLARED;
    const uint8_t *value = column[WIDTH] ? w->given + column[VALUES_AT] + i * (column[WIDTH] < 0 ? 8 : column[WIDTH]) : NULL;
    switch (node[OPERATION]) {
    case GROUP:
        if (++w->depth > DEEPEST)
            return BROKEN;
        for (int64_t n = 0; !failed && n < node[CHILDREN]; n++)
            failed = run(w, w->links[node[FIRST] + n], i);
        w->depth--;
        return failed;
    case INTEGER: {
        int64_t given = number_at(value, column[WIDTH]), scaled = given;
        if (node[B] > 1)
            scaled = given / node[B] - (given % node[B] < 0);
        return put_integer(w, (int64_t)((uint64_t)scaled * (uint64_t)node[A]));
    }
    case FLOAT:
        return put_little_endian(w, (uint32_t)number_at(value, 4), 4);
    case DOUBLE:
        return put_little_endian(w, (uint64_t)number_at(value, 8), 8);
    case BOOLEAN: {
        uint8_t flag = *value != 0;
        return put(w, &flag, 1);
    }
    case DECIMAL:
        return put_decimal(w, value, node[A]);
    default:
        break;
    }
    int64_t from = number_at(value, 8), to = number_at(value + 8, 8);
    if (from < 0 || from > to)
        return BROKEN;
    if (node[OPERATION] == ITEMS) {
        if (from == to)
            return put_integer(w, 0);
        failed = put_integer(w, to - from);
        if (++w->depth > DEEPEST)
            return BROKEN;
        for (int64_t n = from; !failed && n < to; n++)
            failed = run(w, w->links[node[FIRST]], n);
        w->depth--;
        return failed ? failed : put_integer(w, 0);
    }
    if (to > column[DATA_SIZE])
        return BROKEN;
    if (node[OPERATION] == FIXED && to - from != node[A])
        return MISSIZED;
    if (node[OPERATION] == BYTES)
        failed = put_integer(w, to - from);
    return failed ? failed : put(w, w->given + column[DATA_AT] + from, to - from);
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
        if ((operation == NULLABLE || operation == ITEMS) && node[CHILDREN] != 1)
            return 0;
        int64_t width = columns[node[OF] * COLUMN + WIDTH];
        if (operation == BYTES || operation == FIXED || operation == ITEMS ? width != -1
            : operation == INTEGER                                         ? width < 1 || width > 8
            : operation == FLOAT                                           ? width != 4
            : operation == DOUBLE                                          ? width != 8
            : operation == BOOLEAN                                         ? width != 1
            : operation == DECIMAL                                         ? width != 16
                                                                           : 0)
            return 0;
    }
    return 1;
}

/* Writes records from cursor[0] on, until all are there or `out` is full. `ends` tells where each ends. Gives the number of the
   record that comes next, and puts it into cursor[0]; cursor[1] is the reason for which that one cannot be written, with the
   node above its lowest 8 bits. */
KERNEL sqlengine_avro_write(
    const uint8_t *given, int64_t size, const int64_t *nodes, int64_t nodes_size, const int64_t *links, int64_t links_size,
    const int64_t *columns, int64_t columns_size, uint8_t *out, int64_t out_size, int64_t *ends, int64_t records,
    int64_t *cursor, int64_t cursor_size)
{
    int64_t count = columns_size / COLUMN, nodes_count = nodes_size / NODE;
    if (columns_size % COLUMN || nodes_size % NODE || !nodes_count || cursor_size != 2 || !within(cursor[0], records + 1))
        return MISFIT;
    if (!are_columns(columns, count, size) || !is_program(nodes, nodes_count, links, links_size, columns, count))
        return MISFIT;
    int64_t row = cursor[0], used = row ? ends[row - 1] : 0;
    if (!within(used, out_size + 1))
        return OUTSIDE(row);
    struct walk w = {given, nodes, links, columns, out + used, out + out_size, 0, 0, 0};
    cursor[1] = FINE;
    for (; row < records; row++) {
        /* What is written tells how much is visited: each item that is not empty has its bytes. */
        w.fuel = (out_size + size + 1) * 2 > INT64_MAX / nodes_count ? INT64_MAX : (out_size + size + 1) * 2 * nodes_count;
        w.depth = 0;
        int failed = run(&w, 0, row);
        if (failed == FULL)
            break;
        if (failed == BROKEN)
            return OUTSIDE(row);
        if (failed) {
            cursor[1] = failed | w.node << 8;
            break;
        }
        ends[row] = w.at - out;
    }
    cursor[0] = row;
    return row;
}
