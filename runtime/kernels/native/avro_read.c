/* Records of Avro to columns: runtime/kernels/avro_read.py has the meaning of programs and the twin. */

#include "columns.h"

#define NODE 8
#define DEEPEST 200
/* Items that take no bytes: so many in one record. */
#define MOST_EMPTY 4096

enum { SKIP_FIXED, SKIP_INTEGER, SKIP_BYTES, SKIP_ITEMS, GROUP, UNION, ABSENT, INTEGER, INTEGER_AS_FLOAT, FLOAT, DOUBLE, BOOLEAN,
       BYTES, FIXED, DECIMAL, TEXT, DEFAULT, ITEMS, REJECT, OPERATIONS };
/* The words of a node. */
enum { OPERATION, TO, A, B, C, D, FIRST, CHILDREN };
/* Why a record is none; the node is beside it. */
enum { FINE, SHORT, LONG_INTEGER, BAD_LENGTH, NO_BRANCH, OUT_OF_RANGE, NOT_TEXT, NOT_BOOLEAN, TOO_MANY, TOO_DEEP, BAD_DECIMAL,
       LEFT_OVER, REFUSED = 13 };

struct walk {
    const uint8_t *at, *end;
    const int64_t *nodes, *links;
    const uint8_t *constants;
    int64_t *columns;
    uint8_t *arena;
    int64_t fuel, empty, node;
    int depth;
};

static int read_integer(struct walk *w, int64_t *value)
{
    uint64_t read = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->at == w->end)
            return SHORT;
        uint8_t byte = *w->at++;
        if (shift == 63 && byte > 1)
            return LONG_INTEGER;
        read |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *value = (int64_t)(read >> 1) ^ -(int64_t)(read & 1);
            return FINE;
        }
    }
    return LONG_INTEGER;
}

/* The number of bytes or items that follow. */
static int read_length(struct walk *w, int64_t *length)
{
    int failed = read_integer(w, length);
    if (failed)
        return failed;
    if (*length < 0)
        return BAD_LENGTH;
    return *length > w->end - w->at ? SHORT : FINE;
}

static uint64_t little_endian(const uint8_t *from, int width)
{
    uint64_t read = 0;
    for (int i = 0; i < width; i++)
        read |= (uint64_t)from[i] << 8 * i;
    return read;
}

/* A number of two's complement, the highest byte first, of less than 10^p: B and C are 10^p. */
static int add_decimal(struct walk *w, int64_t *column, const int64_t *node, const uint8_t *from, int64_t length)
{
    uint8_t sign = length && from[0] & 128 ? 255 : 0;
    for (; length > 16; length--)
        if (*from++ != sign)
            return BAD_DECIMAL;
    uint64_t words[2] = {sign ? UINT64_MAX : 0, sign ? UINT64_MAX : 0};
    for (int64_t i = 0; i < length; i++) {
        words[1] = words[1] << 8 | words[0] >> 56;
        words[0] = words[0] << 8 | from[i];
    }
    if ((words[1] >> 63) != (sign & 1))
        return BAD_DECIMAL;
    uint64_t low = words[0], high = words[1], most_high = (uint64_t)node[B], most_low = (uint64_t)node[C];
    if (sign) {
        low = ~low + 1;
        high = ~high + (low == 0);
    }
    if (high > most_high || (high == most_high && low >= most_low))
        return BAD_DECIMAL;
    return add(w->arena, column, 1, words);
}

static int run(struct walk *w, int64_t number);

/* The blocks of an array or a map. A column gets what is in them, none skips blocks whose size is told. */
static int run_items(struct walk *w, const int64_t *node, int64_t *column)
{
    int64_t least = node[A], total = 0;
    for (;;) {
        int64_t items, size, self = w->node;
        int failed = read_integer(w, &items);
        if (failed)
            return failed;
        if (items == 0)
            break;
        if (items < 0) {
            if (items == INT64_MIN)
                return BAD_LENGTH;
            items = -items;
            failed = read_length(w, &size);
            if (failed)
                return failed;
            if (!column) {
                w->at += size;
                continue;
            }
        }
        if (least > 0 ? items > (w->end - w->at) / least : items > w->empty)
            return least > 0 ? SHORT : TOO_MANY;
        if (least <= 0)
            w->empty -= items;
        for (int64_t i = 0; i < items; i++) {
            failed = run(w, w->links[node[FIRST]]);
            if (failed)
                return failed;
        }
        w->node = self;
        total += items;
    }
    if (!column)
        return FINE;
    if (column[DATA_USED] + total > INT32_MAX)
        return TOO_LARGE;
    column[DATA_USED] += total;
    return add(w->arena, column, 1, NULL);
}

static int run(struct walk *w, int64_t number)
{
    const int64_t *node = w->nodes + number * NODE;
    int64_t *column = node[TO] < 0 ? NULL : w->columns + node[TO] * COLUMN;
    int64_t value = 0;
    int failed = FINE;
    w->node = number;
    if (--w->fuel < 0)
        return TOO_MANY;
    switch (node[OPERATION]) {
    case SKIP_FIXED:
        if (w->end - w->at < node[A])
            return SHORT;
        w->at += node[A];
        return FINE;
    case SKIP_INTEGER:
        return read_integer(w, &value);
    case SKIP_BYTES:
        failed = read_length(w, &value);
        w->at += failed ? 0 : value;
        return failed;
    case SKIP_ITEMS:
    case ITEMS:
        if (++w->depth > DEEPEST)
            return TOO_DEEP;
        failed = run_items(w, node, column);
        w->depth--;
        return failed;
    case GROUP:
    case ABSENT:
        if (++w->depth > DEEPEST)
            return TOO_DEEP;
        for (int64_t i = 0; !failed && i < node[CHILDREN]; i++)
            failed = run(w, w->links[node[FIRST] + i]);
        w->depth--;
        if (failed || !column)
            return failed;
        return add(w->arena, column, node[OPERATION] == GROUP, NULL);
    case UNION:
        failed = read_integer(w, &value);
        if (failed)
            return failed;
        if (!within(value, node[CHILDREN]))
            return NO_BRANCH;
        if (++w->depth > DEEPEST)
            return TOO_DEEP;
        failed = run(w, w->links[node[FIRST] + value]);
        w->depth--;
        return failed;
    case INTEGER:
    case INTEGER_AS_FLOAT:
        failed = read_integer(w, &value);
        if (failed)
            return failed;
        if (value < node[A] || value > node[B])
            return OUT_OF_RANGE;
        if (node[OPERATION] == INTEGER_AS_FLOAT)
            return add_float(w->arena, column, column[KIND] == 4 ? (double)(float)value : (double)value);
        if (node[D] > 1)
            value = value / node[D] - (value % node[D] < 0);
        return add_number(w->arena, column, (int64_t)((uint64_t)value * (uint64_t)node[C]));
    case FLOAT:
    case DOUBLE: {
        int width = node[OPERATION] == FLOAT ? 4 : 8;
        if (w->end - w->at < width)
            return SHORT;
        uint64_t bits = little_endian(w->at, width);
        uint32_t narrow_bits = (uint32_t)bits;
        double wide;
        float narrow;
        memcpy(&narrow, &narrow_bits, 4);
        memcpy(&wide, &bits, 8);
        w->at += width;
        if (column[KIND] == width)
            return width == 4 ? add_wide(w->arena, column, 1, &narrow, 4) : add_wide(w->arena, column, 1, &wide, 8);
        return add_float(w->arena, column, width == 4 ? (double)narrow : wide);
    }
    case BOOLEAN:
        if (w->at == w->end)
            return SHORT;
        if (*w->at > 1)
            return NOT_BOOLEAN;
        return add_number(w->arena, column, *w->at++);
    case BYTES:
    case FIXED:
        value = node[A];
        if (node[OPERATION] == BYTES)
            failed = read_length(w, &value);
        else if (w->end - w->at < value)
            failed = SHORT;
        if (failed)
            return failed;
        if (node[B] && !is_text(w->at, w->at + value))
            return NOT_TEXT;
        w->at += value;
        return add_bytes(w->arena, column, w->at - value, value);
    case DECIMAL:
        value = node[A];
        if (value < 0)
            failed = read_length(w, &value);
        else if (w->end - w->at < value)
            failed = SHORT;
        if (failed)
            return failed;
        w->at += value;
        return add_decimal(w, column, node, w->at - value, value);
    case TEXT:
        return add_bytes(w->arena, column, w->constants + node[A], node[B]);
    case DEFAULT: {
        const uint8_t *at = w->at, *end = w->end;
        if (++w->depth > DEEPEST)
            return TOO_DEEP;
        w->at = w->constants + node[A];
        w->end = w->at + node[B];
        failed = run(w, w->links[node[FIRST]]);
        w->at = at;
        w->end = end;
        w->depth--;
        return failed;
    }
    default:
        return REFUSED;
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
        int64_t operation = node[OPERATION], to = node[TO], kind = STRUCT;
        if (!within(operation, OPERATIONS) || !within(node[FIRST], links_size + 1) || node[CHILDREN] < 0 ||
            node[CHILDREN] > links_size - node[FIRST])
            return 0;
        int constant = operation == TEXT || operation == DEFAULT;
        if (constant && (!within(node[A], constants_size + 1) || !within(node[B], constants_size - node[A] + 1)))
            return 0;
        if ((operation == SKIP_ITEMS || operation == ITEMS || operation == DEFAULT) && node[CHILDREN] != 1)
            return 0;
        if ((operation == SKIP_FIXED || operation == FIXED) && node[A] < 0)
            return 0;
        if (operation == SKIP_ITEMS && to >= 0)
            return 0;
        if (to < 0) {
            if ((operation >= ABSENT && operation <= TEXT) || operation == ITEMS)
                return 0;
            continue;
        }
        if (!within(to, columns_count))
            return 0;
        kind = columns[to * COLUMN + KIND];
        if (operation == BYTES || operation == FIXED || operation == TEXT ? kind != STRINGS
            : operation == ITEMS                                         ? kind != LISTS
            : operation == GROUP                                         ? kind != STRUCT
            : operation == DECIMAL                                       ? kind != 16
            : operation == INTEGER                                       ? kind < 1 || kind > 8
            : operation == BOOLEAN                                       ? kind != 1
            : operation >= INTEGER_AS_FLOAT && operation <= DOUBLE       ? kind != 4 && kind != 8
                                                                         : 0)
            return 0;
    }
    return 1;
}

/* Reads records from cursor[0] on, until there are no more or a column is full; then that column says what it wants. Gives
   the number of the record that comes next, and puts it into cursor[0].

   With a start and an end for each, a record that is none is told in `state`: the reason, and above its lowest 8 bits the node.
   With one start and one end for all (`streamed`), one record follows another, and nothing is read behind one that is none;
   cursor[1] is where the next one begins. */
KERNEL sqlengine_avro_read(
    const uint8_t *data, int64_t size, const int64_t *starts, int64_t starts_size, const int64_t *ends, int64_t ends_size,
    const int64_t *nodes, int64_t nodes_size, const int64_t *links, int64_t links_size, const uint8_t *constants,
    int64_t constants_size, int64_t *columns, int64_t columns_size, uint8_t *arena, int64_t arena_size, int64_t *saved,
    int64_t saved_size, int64_t *state, int64_t records, int64_t *cursor, int64_t cursor_size, int64_t streamed)
{
    int64_t count = columns_size / COLUMN, nodes_count = nodes_size / NODE;
    if (columns_size % COLUMN || nodes_size % NODE || !nodes_count || saved_size != 3 * count || cursor_size != 2 ||
        starts_size != ends_size || starts_size != (streamed ? 1 : records) || !within(cursor[0], records + 1))
        return MISFIT;
    if (!are_columns(columns, count, arena_size) ||
        !is_program(nodes, nodes_count, links, links_size, constants_size, columns, count))
        return MISFIT;
    struct walk w = {NULL, NULL, nodes, links, constants, columns, arena, 0, 0, 0, 0};
    int64_t row = cursor[0], at = streamed ? cursor[1] : 0;
    for (; row < records; row++) {
        int64_t place = streamed ? 0 : row, from = streamed ? at : starts[row];
        if (!within(ends[place], size + 1) || !within(from, ends[place] + 1))
            return OUTSIDE(row);
        for (int64_t i = 0; i < count; i++)
            memcpy(saved + 3 * i, columns + i * COLUMN + COUNT, 3 * sizeof(int64_t));
        w.at = data + from;
        w.end = data + ends[place];
        w.empty = MOST_EMPTY;
        w.depth = 0;
        int64_t visits = w.end - w.at + MOST_EMPTY + 1;
        w.fuel = nodes_count > INT64_MAX / visits ? INT64_MAX : visits * nodes_count;
        int failed = run(&w, 0);
        if (!failed && !streamed && w.at != w.end) {
            failed = LEFT_OVER;
            w.node = 0;
        }
        if (failed)
            for (int64_t i = 0; i < count; i++)
                memcpy(columns + i * COLUMN + COUNT, saved + 3 * i, 3 * sizeof(int64_t));
        if (failed == FULL)
            break;
        state[row] = failed | (failed ? w.node << 8 : 0);
        at = w.at - data;
        if (failed && streamed)
            break;
    }
    cursor[0] = row;
    cursor[1] = at;
    return row;
}
