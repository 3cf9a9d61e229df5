/* Messages of Protobuf to columns: runtime/kernels/proto_read.py has the meaning of programs and the twin. */

#include "columns.h"

#define NODE 8
#define DEEPEST 100
/* Fields that are not there and take no bytes: so many in one message. */
#define MOST_ABSENT (1 << 24)
/* What is noted of each field of a message: where its first occurrence begins, the value of the last (of a repeated one: where
   that ends), how many there were; and, at the first member of a oneof, which member was the last. */
#define NOTED 4

enum { MESSAGE, FIELD, REPEATED, OTHER, NOTHING, DEFAULT, INTEGER, DECIMAL, FLOAT, DOUBLE, BYTES, ENUM, SYMBOL, TIMESTAMP, OPERATIONS };
/* The words of a node. */
enum { OPERATION, TO, A, B, C, D, FIRST, CHILDREN };
enum { BEGIN, LAST, TIMES, MEMBER };
/* How integers are written. */
enum { INT32, INT64, UINT32, UINT64, SINT32, SINT64, FIXED32, FIXED64, SFIXED32, SFIXED64, BOOL };
enum { VARINT, WIDE, LENGTH, START, END, NARROW };
/* Why a message is none; the node is beside it. */
enum { FINE, SHORT, LONG_INTEGER, BAD_TAG, OUT_OF_RANGE, NOT_TEXT, TOO_DEEP, TOO_MANY, MISSING, MERGE };
#define BROKEN (-2)
/* The years 1 to 9999. */
#define EARLIEST (-62135596800)
#define LATEST 253402300799

struct walk {
    const uint8_t *at, *end;
    const int64_t *nodes, *links;
    const uint8_t *constants;
    int64_t *columns;
    uint8_t *arena;
    int64_t *noted, *noted_end;
    int64_t absent, node;
    int depth;
};

static int read_varint(struct walk *w, uint64_t *value)
{
    uint64_t read = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return SHORT;
        uint8_t byte = *w->at++;
        if (shift < 64)
            read |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = read;
            return FINE;
        }
    }
    return LONG_INTEGER;
}

static int read_length(struct walk *w, int64_t *length)
{
    uint64_t read;
    int failed = read_varint(w, &read);
    if (failed)
        return failed;
    if (read > (uint64_t)(w->end - w->at))
        return SHORT;
    *length = (int64_t)read;
    return FINE;
}

static int read_tag(struct walk *w, int64_t *number, int *wire)
{
    uint64_t read;
    int failed = read_varint(w, &read);
    if (failed)
        return failed;
    *number = (int64_t)(read >> 3);
    *wire = (int)(read & 7);
    return read >> 32 || *number == 0 || *wire > NARROW ? BAD_TAG : FINE;
}

/* Passes over a value whose tag was read. */
static int skip(struct walk *w, int64_t number, int wire, int depth)
{
    uint64_t value;
    int64_t length;
    int failed, inner;
    switch (wire) {
    case VARINT:
        return read_varint(w, &value);
    case WIDE:
    case NARROW:
        length = wire == WIDE ? 8 : 4;
        if (w->end - w->at < length)
            return SHORT;
        w->at += length;
        return FINE;
    case LENGTH:
        failed = read_length(w, &length);
        w->at += failed ? 0 : length;
        return failed;
    case START:
        if (depth >= DEEPEST)
            return TOO_DEEP;
        for (;;) {
            int64_t within_group;
            failed = read_tag(w, &within_group, &inner);
            if (failed)
                return failed;
            if (inner == END)
                return within_group == number ? FINE : BAD_TAG;
            failed = skip(w, within_group, inner, depth + 1);
            if (failed)
                return failed;
        }
    default:
        return BAD_TAG;
    }
}

static uint64_t little_endian(const uint8_t *from, int width)
{
    uint64_t read = 0;
    for (int i = 0; i < width; i++)
        read |= (uint64_t)from[i] << 8 * i;
    return read;
}

/* The bits of an integer, as one of 64 bits; `is_large`: it is an unsigned one beyond 63 bits. */
static int read_integer(struct walk *w, int64_t encoding, int64_t *value, int *is_large)
{
    uint64_t read;
    *is_large = 0;
    if (encoding >= FIXED32 && encoding <= SFIXED64) {
        int width = encoding == FIXED32 || encoding == SFIXED32 ? 4 : 8;
        if (w->end - w->at < width)
            return SHORT;
        read = little_endian(w->at, width);
        w->at += width;
    } else {
        int failed = read_varint(w, &read);
        if (failed)
            return failed;
    }
    switch (encoding) {
    case INT32:
    case SFIXED32:
        *value = (int32_t)(uint32_t)read;
        return FINE;
    case UINT32:
    case FIXED32:
        *value = (int64_t)(uint32_t)read;
        return FINE;
    case SINT32:
        *value = (int32_t)((uint32_t)read >> 1 ^ (0U - ((uint32_t)read & 1)));
        return FINE;
    case SINT64:
        *value = (int64_t)(read >> 1 ^ (0U - (read & 1)));
        return FINE;
    case BOOL:
        *value = read != 0;
        return FINE;
    default:
        *value = (int64_t)read;
        *is_large = (encoding == UINT64 || encoding == FIXED64) && read >> 63;
        return FINE;
    }
}

static int wire_of(const int64_t *node)
{
    switch (node[OPERATION]) {
    case INTEGER:
    case DECIMAL:
        return node[C] == FIXED32 || node[C] == SFIXED32 ? NARROW : node[C] == FIXED64 || node[C] == SFIXED64 ? WIDE : VARINT;
    case ENUM:
        return VARINT;
    case FLOAT:
        return NARROW;
    case DOUBLE:
        return WIDE;
    default:
        return LENGTH;
    }
}

/* Which of the node's first A children has this number, or -1; they are in the order of their numbers. */
static int64_t found(const struct walk *w, const int64_t *node, int64_t count, int64_t number)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (w->nodes[w->links[node[FIRST] + middle] * NODE + A] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && w->nodes[w->links[node[FIRST] + low] * NODE + A] == number ? low : -1;
}

/* Whether the value that comes next is of a closed enum that does not have it: then it counts as not there. */
static int is_unknown(struct walk *w, const int64_t *value)
{
    if (value[OPERATION] != ENUM || !value[B])
        return 0;
    const uint8_t *at = w->at;
    uint64_t read;
    int failed = read_varint(w, &read);
    w->at = at;
    return !failed && found(w, value, value[A], (int32_t)(uint32_t)read) < 0;
}

static int run_value(struct walk *w, int64_t number);

static int run_absent(struct walk *w, int64_t number)
{
    const int64_t *node = w->nodes + number * NODE;
    w->node = number;
    if (--w->absent < 0)
        return TOO_MANY;
    if (++w->depth > DEEPEST)
        return TOO_DEEP;
    int failed = FINE;
    if (node[OPERATION] == DEFAULT) {
        const uint8_t *at = w->at, *end = w->end;
        w->at = w->constants + node[A];
        w->end = w->at + node[B];
        failed = run_value(w, w->links[node[FIRST]]);
        w->at = at;
        w->end = end;
    } else {
        for (int64_t i = 0; !failed && i < node[CHILDREN]; i++)
            failed = run_absent(w, w->links[node[FIRST] + i]);
        if (!failed)
            failed = add(w->arena, w->columns + node[TO] * COLUMN, 0, NULL);
    }
    w->depth--;
    return failed;
}

/* All values of a repeated field, from its first tag to the end of the last one. */
static int run_repeated(struct walk *w, const int64_t *node, const uint8_t *from, const uint8_t *to)
{
    const uint8_t *end = w->end;
    int64_t *column = w->columns + node[TO] * COLUMN;
    int64_t value = w->links[node[FIRST]], total = 0, number, length;
    const int64_t *element = w->nodes + value * NODE;
    int wire, failed, expected = wire_of(element);
    w->at = from;
    while (w->at < to) {
        failed = read_tag(w, &number, &wire);
        if (failed)
            return failed;
        if (number == node[A] && wire == expected) {
            if (!is_unknown(w, element)) {
                failed = run_value(w, value);
                total++;
            } else
                failed = skip(w, number, wire, 0);
        } else if (number == node[A] && wire == LENGTH) {
            failed = read_length(w, &length);
            if (failed)
                return failed;
            w->end = w->at + length;
            while (!failed && w->at < w->end)
                if (!is_unknown(w, element)) {
                    failed = run_value(w, value);
                    total++;
                } else
                    failed = skip(w, number, VARINT, 0);
            w->end = end;
        } else
            failed = skip(w, number, wire, 0);
        if (failed)
            return failed;
    }
    if (column[DATA_USED] + total > INT32_MAX)
        return TOO_LARGE;
    column[DATA_USED] += total;
    return add(w->arena, column, 1, NULL);
}

/* The message from `at` to `end`: notes where its fields are, then reads them in the order of their numbers. */
static int run_message(struct walk *w, int64_t self)
{
    const int64_t *node = w->nodes + self * NODE;
    int64_t count = node[CHILDREN], next = 0, number, *noted = w->noted;
    const uint8_t *begin = w->at, *end = w->end;
    int wire, failed;
    w->node = self;
    if (++w->depth > DEEPEST)
        return TOO_DEEP;
    if (count > (w->noted_end - noted) / NOTED)
        return BROKEN;
    w->noted += count * NOTED;
    for (int64_t i = 0; i < count; i++) {
        noted[i * NOTED + TIMES] = 0;
        noted[i * NOTED + MEMBER] = -1;
    }
    while (w->at < end) {
        int64_t tag_at = w->at - begin;
        failed = read_tag(w, &number, &wire);
        if (failed)
            return failed;
        /* Fields come in the order of their numbers, as a rule. */
        int64_t i = -1;
        for (int64_t guess = next; guess < count && guess < next + 2; guess++)
            if (w->nodes[w->links[node[FIRST] + guess] * NODE + A] == number)
                i = guess;
        if (i < 0)
            i = found(w, node, count, number);
        int64_t value_at = w->at - begin;
        if (i < 0) {
            failed = skip(w, number, wire, w->depth);
            if (failed)
                return failed;
            continue;
        }
        const int64_t *child = w->nodes + w->links[node[FIRST] + i] * NODE;
        const int64_t *value = child[OPERATION] == OTHER ? NULL : w->nodes + w->links[child[FIRST]] * NODE;
        int expected = value ? wire_of(value) : (int)child[D];
        int suits = wire == expected || (child[OPERATION] == REPEATED && wire == LENGTH);
        if (suits && child[OPERATION] == FIELD && is_unknown(w, value))
            suits = 0;
        failed = skip(w, number, wire, w->depth);
        if (failed)
            return failed;
        if (!suits)
            continue;
        next = i;
        int64_t *note = noted + i * NOTED;
        if (child[B]) {
            if (!within(child[B] - 1, count))
                return BROKEN;
            int64_t *member = noted + (child[B] - 1) * NOTED + MEMBER;
            if (*member >= 0 && *member != i)
                noted[*member * NOTED + TIMES] = 0;
            *member = i;
        }
        if (!note[TIMES]++)
            note[BEGIN] = tag_at;
        note[LAST] = child[OPERATION] == REPEATED ? w->at - begin : value_at;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t *note = noted + i * NOTED;
        int64_t place = w->links[node[FIRST] + i];
        const int64_t *child = w->nodes + place * NODE;
        w->node = place;
        failed = FINE;
        if (child[OPERATION] == NOTHING)
            failed = run_absent(w, place);
        else if (child[OPERATION] == REPEATED) {
            if (note[TIMES])
                failed = run_repeated(w, child, begin + note[BEGIN], begin + note[LAST]);
            else if (--w->absent < 0)
                failed = TOO_MANY;
            else
                failed = add(w->arena, w->columns + child[TO] * COLUMN, child[D] != 0, NULL);
        } else if (!note[TIMES]) {
            if (child[C])
                return MISSING;
            if (child[OPERATION] == FIELD)
                failed = run_absent(w, w->links[child[FIRST] + 1]);
        } else if (child[OPERATION] == FIELD) {
            int64_t value = w->links[child[FIRST]], operation = w->nodes[value * NODE + OPERATION];
            if (note[TIMES] > 1 && (operation == MESSAGE || operation == TIMESTAMP))
                return MERGE;
            w->at = begin + note[LAST];
            failed = run_value(w, value);
        }
        if (failed)
            return failed;
        w->end = end;
    }
    w->at = end;
    w->noted = noted;
    w->depth--;
    return node[TO] < 0 ? FINE : add(w->arena, w->columns + node[TO] * COLUMN, 1, NULL);
}

/* Seconds and nanoseconds: A units in a second, B nanoseconds in a unit, and C units are the finest that the column tells. */
static int run_timestamp(struct walk *w, const int64_t *node)
{
    int64_t seconds = 0, nanos = 0, number, value;
    int wire, failed, is_large;
    while (w->at < w->end) {
        failed = read_tag(w, &number, &wire);
        if (!failed && wire == VARINT && number <= 2) {
            failed = read_integer(w, number == 1 ? INT64 : INT32, &value, &is_large);
            *(number == 1 ? &seconds : &nanos) = value;
        } else if (!failed)
            failed = skip(w, number, wire, w->depth);
        if (failed)
            return failed;
    }
    int64_t most = INT64_MAX / node[A] - 1;
    if (seconds > most || seconds < -most || seconds < EARLIEST || seconds > LATEST || nanos < 0 || nanos > 999999999)
        return OUT_OF_RANGE;
    value = seconds * node[A] + nanos / node[B];
    int64_t rest = value % node[C];
    return add_number(w->arena, w->columns + node[TO] * COLUMN, value - rest - (rest < 0 ? node[C] : 0));
}

static int run_value(struct walk *w, int64_t number)
{
    const int64_t *node = w->nodes + number * NODE;
    int64_t *column = node[TO] < 0 ? NULL : w->columns + node[TO] * COLUMN;
    int64_t value = 0;
    int failed, is_large;
    w->node = number;
    switch (node[OPERATION]) {
    case INTEGER:
        failed = read_integer(w, node[C], &value, &is_large);
        if (failed)
            return failed;
        if (is_large || value < node[A] || value > node[B])
            return OUT_OF_RANGE;
        return add_number(w->arena, column, value);
    case DECIMAL: {
        failed = read_integer(w, node[C], &value, &is_large);
        if (failed)
            return failed;
        uint64_t words[2] = {(uint64_t)value, value < 0 && !is_large ? UINT64_MAX : 0};
        return add(w->arena, column, 1, words);
    }
    case FLOAT:
    case DOUBLE: {
        int width = node[OPERATION] == FLOAT ? 4 : 8;
        if (w->end - w->at < width)
            return SHORT;
        uint64_t bits = little_endian(w->at, width);
        uint32_t narrow_bits = (uint32_t)bits;
        float narrow;
        memcpy(&narrow, &narrow_bits, 4);
        w->at += width;
        if (width == 4)
            return column[KIND] == 4 ? add_wide(w->arena, column, 1, &narrow, 4) : add_float(w->arena, column, (double)narrow);
        return add(w->arena, column, 1, &bits);
    }
    case BYTES:
        failed = read_length(w, &value);
        if (failed)
            return failed;
        if (node[A] && !is_text(w->at, w->at + value))
            return NOT_TEXT;
        w->at += value;
        return add_bytes(w->arena, column, w->at - value, value);
    case ENUM: {
        failed = read_integer(w, INT32, &value, &is_large);
        if (failed)
            return failed;
        if (column[KIND] != STRINGS)
            return value < node[C] || value > node[D] ? OUT_OF_RANGE : add_number(w->arena, column, value);
        int64_t which = found(w, node, node[A], value);
        if (which < 0 && node[CHILDREN] == node[A])
            return OUT_OF_RANGE;
        const int64_t *symbol = w->nodes + w->links[node[FIRST] + (which < 0 ? node[A] : which)] * NODE;
        return add_bytes(w->arena, column, w->constants + symbol[B], symbol[C]);
    }
    default: {
        const uint8_t *end = w->end;
        failed = read_length(w, &value);
        if (failed)
            return failed;
        w->end = w->at + value;
        const uint8_t *behind = w->end;
        failed = node[OPERATION] == MESSAGE ? run_message(w, number) : run_timestamp(w, node);
        w->at = behind;
        w->end = end;
        return failed;
    }
    }
}

static int is_value(int64_t operation)
{
    return operation == MESSAGE || (operation >= INTEGER && operation <= ENUM) || operation == TIMESTAMP;
}

/* Whether a node may have this as its child. */
static int is_child(const int64_t *node, int64_t place, const int64_t *child)
{
    int64_t operation = child[OPERATION];
    switch (node[OPERATION]) {
    case MESSAGE:
        return operation == FIELD || operation == REPEATED || operation == OTHER || operation == NOTHING;
    case FIELD:
        return place ? operation == NOTHING || operation == DEFAULT : is_value(operation);
    case REPEATED:
    case DEFAULT:
        return is_value(operation);
    case NOTHING:
        return operation == NOTHING;
    case ENUM:
        return operation == SYMBOL;
    default:
        return 0;
    }
}

/* Whether a program asks for nothing that is not there. */
static int is_program(
    const int64_t *nodes, int64_t nodes_count, const int64_t *links, int64_t links_size, int64_t constants_size,
    const int64_t *columns, int64_t columns_count)
{
    for (int64_t i = 0; i < links_size; i++)
        if (!within(links[i], nodes_count))
            return 0;
    for (const int64_t *node = nodes; node < nodes + nodes_count * NODE; node += NODE) {
        int64_t operation = node[OPERATION], to = node[TO], children = node[CHILDREN];
        if (!within(operation, OPERATIONS) || !within(node[FIRST], links_size + 1) || children < 0 ||
            children > links_size - node[FIRST])
            return 0;
        for (int64_t i = 0; i < children; i++)
            if (!is_child(node, i, nodes + links[node[FIRST] + i] * NODE))
                return 0;
        if (operation == FIELD ? children != 2 : operation == REPEATED || operation == DEFAULT ? children != 1 : 0)
            return 0;
        int64_t at = operation == SYMBOL ? node[B] : node[A], size = operation == SYMBOL ? node[C] : node[B];
        if ((operation == SYMBOL || operation == DEFAULT) &&
            (!within(at, constants_size + 1) || !within(size, constants_size - at + 1)))
            return 0;
        if (operation == ENUM && !within(node[A], children + 1))
            return 0;
        if ((operation == INTEGER || operation == DECIMAL) && !within(node[C], BOOL + 1))
            return 0;
        if (operation == TIMESTAMP && (node[A] < 1 || node[A] > 1000000000 || node[B] < 1 || node[C] < 1))
            return 0;
        if (to < 0) {
            if (operation == REPEATED || operation == NOTHING || (is_value(operation) && operation != MESSAGE))
                return 0;
            continue;
        }
        if (!within(to, columns_count))
            return 0;
        int64_t kind = columns[to * COLUMN + KIND];
        if (operation == BYTES                               ? kind != STRINGS
            : operation == REPEATED                          ? kind != LISTS
            : operation == MESSAGE                           ? kind != STRUCT
            : operation == DECIMAL                           ? kind != 16
            : operation == INTEGER                           ? kind < 1 || kind > 8
            : operation == ENUM                              ? kind != STRINGS && (kind < 1 || kind > 8)
            : operation == FLOAT                             ? kind != 4 && kind != 8
            : operation == DOUBLE || operation == TIMESTAMP  ? kind != 8
                                                             : 0)
            return 0;
    }
    return 1;
}

/* Reads messages from cursor[0] on, until there are no more or a column is full; then that column says what it wants. Gives the
   number of the message that comes next, and puts it into cursor[0]. A message that is none is told in `state`: the reason, and
   above its lowest 8 bits the node. */
KERNEL sqlengine_proto_read(
    const uint8_t *data, int64_t size, const int64_t *starts, int64_t starts_size, const int64_t *ends, int64_t ends_size,
    const int64_t *nodes, int64_t nodes_size, const int64_t *links, int64_t links_size, const uint8_t *constants,
    int64_t constants_size, int64_t *columns, int64_t columns_size, uint8_t *arena, int64_t arena_size, int64_t *saved,
    int64_t saved_size, int64_t *noted, int64_t noted_size, int64_t *state, int64_t messages, int64_t *cursor,
    int64_t cursor_size)
{
    int64_t count = columns_size / COLUMN, nodes_count = nodes_size / NODE;
    if (columns_size % COLUMN || nodes_size % NODE || !nodes_count || saved_size != 3 * count || cursor_size != 1 ||
        starts_size != messages || ends_size != messages || !within(cursor[0], messages + 1))
        return MISFIT;
    if (!are_columns(columns, count, arena_size) ||
        !is_program(nodes, nodes_count, links, links_size, constants_size, columns, count) || nodes[OPERATION] != MESSAGE)
        return MISFIT;
    struct walk w = {NULL, NULL, nodes, links, constants, columns, arena, noted, noted + noted_size, 0, 0, 0};
    int64_t row = cursor[0];
    for (; row < messages; row++) {
        if (!within(ends[row], size + 1) || !within(starts[row], ends[row] + 1))
            return OUTSIDE(row);
        for (int64_t i = 0; i < count; i++)
            memcpy(saved + 3 * i, columns + i * COLUMN + COUNT, 3 * sizeof(int64_t));
        w.at = data + starts[row];
        w.end = data + ends[row];
        w.noted = noted;
        w.absent = MOST_ABSENT;
        w.noted = noted;
        w.depth = 0;
        int failed = run_message(&w, 0);
        if (failed == BROKEN)
            return OUTSIDE(row);
        if (failed)
            for (int64_t i = 0; i < count; i++)
                memcpy(columns + i * COLUMN + COUNT, saved + 3 * i, 3 * sizeof(int64_t));
        if (failed == FULL)
            break;
        state[row] = failed | (failed ? w.node << 8 : 0);
    }
    cursor[0] = row;
    return row;
}
