/* The walk of MATCH_RECOGNIZE's automaton over the rows of partitions: runtime/kernels/match_walk.py.

   A run is a row of words: where it began (a position in the partition; LAST for the run that has not begun), the time of
   that row, its state, and for each variable how many rows are mapped to it. Which run comes first among several that began
   with the same row follows Flink, which keeps runs in Java's PriorityQueue: so the heaps here are that heap. */

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define LAST INT64_MAX
#define START 0
#define TIME 1
#define STATE 2
#define COUNTS 3
#define FINAL 0

/* After a match: runtime/kernels/match_walk.py. */
#define PAST_LAST_ROW 0
#define TO_NEXT_ROW 1
#define TO_FIRST 2

/* What `status` tells. */
#define DONE 0
#define RUNS_USED 1
#define HELD_USED 2
#define MATCHES_USED 3
#define FAILED 4
#define STATUS 5

#define NO_ROOM 1
#define FIRST_ROW_AGAIN 2
#define NOTHING_MAPPED 3

typedef struct {
    int64_t *runs;
    int64_t size, room;
} Heap;

static int64_t *run_at(const Heap *heap, int64_t index, int64_t width)
{
    return heap->runs + index * width;
}

static void copy_run(int64_t *to, const int64_t *from, int64_t width)
{
    memcpy(to, from, (size_t)width * sizeof *to);
}

/* Room for one more run, and for one beside them. */
static int has_room(Heap *heap, int64_t width)
{
    if (heap->size + 2 <= heap->room)
        return 1;
    int64_t room = heap->room < 16 ? 16 : 2 * heap->room;
    if (room > (INT64_MAX / 8) / width)
        return 0;
    int64_t *runs = realloc(heap->runs, (size_t)(room * width) * sizeof *runs);
    if (runs == NULL)
        return 0;
    heap->runs = runs;
    heap->room = room;
    return 1;
}

static int add(Heap *heap, const int64_t *run, int64_t width)
{
    if (!has_room(heap, width))
        return 0;
    int64_t k = heap->size++;
    while (k > 0) {
        int64_t parent = (k - 1) >> 1;
        if (run[START] >= run_at(heap, parent, width)[START])
            break;
        copy_run(run_at(heap, k, width), run_at(heap, parent, width), width);
        k = parent;
    }
    copy_run(run_at(heap, k, width), run, width);
    return 1;
}

static void sift_down(Heap *heap, int64_t k, const int64_t *run, int64_t width)
{
    int64_t half = heap->size >> 1;
    while (k < half) {
        int64_t child = 2 * k + 1;
        if (child + 1 < heap->size && run_at(heap, child, width)[START] > run_at(heap, child + 1, width)[START])
            child++;
        if (run[START] <= run_at(heap, child, width)[START])
            break;
        copy_run(run_at(heap, k, width), run_at(heap, child, width), width);
        k = child;
    }
    copy_run(run_at(heap, k, width), run, width);
}

/* Takes out the first run; `run` gets it, `spare` is room for another. */
static void take_first(Heap *heap, int64_t *run, int64_t *spare, int64_t width)
{
    copy_run(run, run_at(heap, 0, width), width);
    heap->size--;
    if (heap->size > 0) {
        copy_run(spare, run_at(heap, heap->size, width), width);
        sift_down(heap, 0, spare, width);
    }
}

/* Takes out the runs that began before `bound`. */
static void prune(Heap *heap, int64_t bound, int64_t *spare, int64_t width)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < heap->size; i++)
        if (run_at(heap, i, width)[START] >= bound) {
            if (kept != i)
                copy_run(run_at(heap, kept, width), run_at(heap, i, width), width);
            kept++;
        }
    if (kept == heap->size)
        return;
    heap->size = kept;
    for (int64_t i = (kept >> 1) - 1; i >= 0; i--) {
        copy_run(spare, run_at(heap, i, width), width);
        sift_down(heap, i, spare, width);
    }
}

/* Numbers that come from outside may be too large to be added. */
static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* How many rows of a run are mapped to the first so many variables. */
static int64_t rows_of_first(const int64_t *run, int64_t variables)
{
    int64_t rows = 0;
    for (int64_t v = 0; v < variables; v++)
        rows = sum(rows, run[COUNTS + v]);
    return rows;
}

typedef struct {
    const int64_t *begin, *target, *variable;
    const uint64_t *must, *must_not;
    int64_t variables, width, after, within;
    uint64_t skip_to;
    int64_t *matches, matches_room, matches_used;
    Heap runs, next, found, held;
    int64_t *run, *spare;
} Walk;

/* Gives the matches before which no run may still become one. 0, or why not. */
static int settle(Walk *walk, Heap *runs, int64_t partition, int64_t row)
{
    int64_t width = walk->width;
    Heap *held = &walk->held;
    while (held->size > 0 && (runs->size == 0 || run_at(held, 0, width)[START] <= run_at(runs, 0, width)[START])) {
        int64_t *match = walk->run;
        take_first(held, match, walk->spare, width);
        int64_t bound = match[START];
        if (walk->after == PAST_LAST_ROW)
            bound = sum(bound, rows_of_first(match, walk->variables));
        else if (walk->after == TO_NEXT_ROW)
            bound = sum(bound, 1);
        else {
            int64_t found = -1;
            for (int64_t v = 0; v < walk->variables && (found < 0 || walk->after != TO_FIRST); v++)
                if ((walk->skip_to >> v & 1) && match[COUNTS + v] != 0)
                    found = v;
            if (found < 0)
                return NOTHING_MAPPED;
            bound = sum(bound, rows_of_first(match, found));
            if (walk->after != TO_FIRST)
                bound = sum(bound, sum(match[COUNTS + found], -1));
            if (bound == match[START])
                return FIRST_ROW_AGAIN;
        }
        prune(runs, bound, walk->spare, width);
        prune(held, bound, walk->spare, width);
        if (walk->matches_used == walk->matches_room)
            return NO_ROOM;
        int64_t *out = walk->matches + walk->matches_used++ * width;
        out[0] = partition;
        out[1] = row;
        out[2] = match[START];
        memcpy(out + 3, match + COUNTS, (size_t)walk->variables * sizeof *out);
    }
    return 0;
}

static void swap(Heap *a, Heap *b)
{
    Heap kept = *a;
    *a = *b;
    *b = kept;
}

/* Whether a run is too long at a time. The last watermark is beyond all times. */
static int too_long(const Walk *walk, const int64_t *run, int64_t now)
{
    int64_t limit = run[TIME] > INT64_MAX - walk->within ? INT64_MAX : run[TIME] + walk->within;
    return run[START] != LAST && now >= limit;
}

/* Takes out the runs that are too long at a time. */
static int64_t expire(Walk *walk, int64_t now, int64_t partition, int64_t row)
{
    int64_t width = walk->width, gone = 0;
    Heap *runs = &walk->runs;
    if (walk->within <= 0)
        return 0;
    for (int64_t i = 0; i < runs->size; i++)
        gone += too_long(walk, run_at(runs, i, width), now);
    if (gone == 0)
        return 0;
    walk->next.size = 0;
    for (int64_t i = 0; i < runs->size; i++) {
        const int64_t *run = run_at(runs, i, width);
        if (!too_long(walk, run, now) && !add(&walk->next, run, width))
            return NO_MEMORY;
    }
    swap(runs, &walk->next);
    return settle(walk, runs, partition, row);
}

static int64_t take_row(
    Walk *walk, int64_t position, int64_t time, uint64_t begins, uint64_t alone, uint64_t asked, const uint64_t *answers,
    int64_t partition, int64_t row)
{
    int64_t width = walk->width;
    Heap *runs = &walk->runs, *next = &walk->next, *found = &walk->found;
    next->size = 0;
    found->size = 0;
    for (int64_t i = 0; i < runs->size; i++) {
        const int64_t *run = run_at(runs, i, width);
        int first = run[START] == LAST;
        uint64_t truth = first ? begins : alone & (~asked | (answers == NULL ? 0 : answers[i]));
        int64_t state = run[STATE];
        while (state >= 0) {
            int64_t proceed = -1;
            for (int64_t e = walk->begin[state]; e < walk->begin[state + 1]; e++) {
                if ((truth & walk->must[e]) != walk->must[e] || (truth & walk->must_not[e]))
                    continue;
                if (walk->variable[e] < 0) {
                    proceed = walk->target[e];
                    continue;
                }
                int64_t *taken = walk->run;
                copy_run(taken, run, width);
                if (first) {
                    taken[START] = position;
                    taken[TIME] = time;
                }
                taken[STATE] = walk->target[e];
                taken[COUNTS + walk->variable[e]] = sum(taken[COUNTS + walk->variable[e]], 1);
                if (!add(taken[STATE] == FINAL ? found : next, taken, width))
                    return NO_MEMORY;
                /* What is left of the pattern may be optional. */
                int64_t behind = taken[STATE];
                while (behind > FINAL) {
                    int64_t further = -1;
                    for (int64_t f = walk->begin[behind]; f < walk->begin[behind + 1]; f++)
                        if (walk->variable[f] < 0 && (truth & walk->must[f]) == walk->must[f] && !(truth & walk->must_not[f]))
                            further = walk->target[f];
                    if (further == FINAL && !add(found, taken, width))
                        return NO_MEMORY;
                    behind = further;
                }
            }
            state = proceed;
        }
        if (first && !add(next, run, width))
            return NO_MEMORY;
    }
    for (int64_t i = 0; i < found->size; i++)
        if (!add(&walk->held, run_at(found, i, width), width))
            return NO_MEMORY;
    swap(runs, next);
    return settle(walk, runs, partition, row);
}

static int copy_runs(Heap *heap, const int64_t *runs, int64_t first, int64_t end, int64_t width)
{
    heap->size = 0;
    while (heap->room < end - first + 2) {
        heap->size = heap->room;
        if (!has_room(heap, width))
            return 0;
    }
    heap->size = end - first;
    if (end > first)
        memcpy(heap->runs, runs + first * width, (size_t)((end - first) * width) * sizeof *runs);
    return 1;
}

static int64_t walk_partitions(
    Walk *walk, int64_t states, const uint64_t *reach, int64_t *at, int64_t partitions, const int64_t *end,
    const int64_t *shift, const uint64_t *alone, const uint64_t *begins, const int64_t *times, int64_t rows,
    const int64_t *run_begin, const int64_t *runs, int64_t runs_rows, const uint64_t *answers, const int64_t *answered,
    const int64_t *held_begin, const int64_t *held, int64_t held_rows, int64_t *new_run_begin, int64_t *new_runs,
    int64_t new_runs_rows, int64_t *new_held_begin, int64_t *new_held, int64_t new_held_rows, int64_t *status,
    uint64_t asked, int64_t now)
{
    int64_t width = walk->width;
    for (int64_t p = status[DONE]; p < partitions; p++) {
        if (!within(run_begin[p], runs_rows + 1) || !within(run_begin[p + 1], runs_rows + 1)
            || run_begin[p] > run_begin[p + 1] || !within(held_begin[p], held_rows + 1)
            || !within(held_begin[p + 1], held_rows + 1) || held_begin[p] > held_begin[p + 1]
            || !within(end[p], rows + 1) || at[p] < 0 || at[p] > end[p])
            return OUTSIDE(p);
        for (int64_t i = run_begin[p]; i < run_begin[p + 1]; i++)
            if (!within(runs[i * width + STATE], states))
                return OUTSIDE(p);
        if (!copy_runs(&walk->runs, runs, run_begin[p], run_begin[p + 1], width)
            || !copy_runs(&walk->held, held, held_begin[p], held_begin[p + 1], width))
            return NO_MEMORY;
        const uint64_t *given = answered[p] ? answers + run_begin[p] : NULL;
        int64_t row = at[p], failed = 0, matches_before = walk->matches_used;
        for (; row < end[p] && !failed; row++) {
            failed = expire(walk, times[row], p, row);
            if (failed)
                break;
            if (asked && given == NULL) {
                int asks = 0;
                for (int64_t i = 0; i < walk->runs.size && !asks; i++) {
                    const int64_t *run = run_at(&walk->runs, i, width);
                    asks = run[START] != LAST && (reach[run[STATE]] & asked & alone[row]) != 0;
                }
                if (asks)
                    break;
            }
            failed = take_row(walk, sum(row, shift[p]), times[row], begins[row], alone[row], asked, given, p, row);
            given = NULL;
        }
        if (!failed && row == end[p])
            failed = expire(walk, now, p, row - 1);
        if (failed == NO_MEMORY)
            return NO_MEMORY;
        if (!failed
            && (walk->runs.size > new_runs_rows - status[RUNS_USED] || walk->held.size > new_held_rows - status[HELD_USED]))
            failed = NO_ROOM;
        if (failed) {
            walk->matches_used = matches_before;
            status[FAILED] = failed;
            break;
        }
        at[p] = row;
        if (walk->runs.size)
            memcpy(new_runs + status[RUNS_USED] * width, walk->runs.runs,
                   (size_t)(walk->runs.size * width) * sizeof *new_runs);
        if (walk->held.size)
            memcpy(new_held + status[HELD_USED] * width, walk->held.runs,
                   (size_t)(walk->held.size * width) * sizeof *new_held);
        status[RUNS_USED] += walk->runs.size;
        status[HELD_USED] += walk->held.size;
        new_run_begin[p + 1] = status[RUNS_USED];
        new_held_begin[p + 1] = status[HELD_USED];
        status[DONE] = p + 1;
    }
    status[MATCHES_USED] = walk->matches_used;
    return 0;
}

/* Walks each partition from row `at` on, up to `end` or to a row for which answers are needed, and at the end of its rows
   up to the time `now`. `status` begins as zeros; where room was missing (`NO_ROOM`) the call goes on with the same arrays,
   the new ones larger. */
KERNEL sqlengine_match_walk(
    const int64_t *begin, int64_t begin_size, const int64_t *target, int64_t edges, const int64_t *variable,
    int64_t variable_size, const uint64_t *must, int64_t must_size, const uint64_t *must_not, int64_t must_not_size,
    const uint64_t *reach, int64_t states, int64_t *at, int64_t partitions, const int64_t *end, int64_t end_size,
    const int64_t *shift, int64_t shift_size, const uint64_t *alone, int64_t rows, const uint64_t *begins,
    int64_t begins_size, const int64_t *times, int64_t times_size, const int64_t *run_begin, int64_t run_begin_size,
    const int64_t *runs, int64_t runs_size, const uint64_t *answers, int64_t answers_size, const int64_t *answered,
    int64_t answered_size, const int64_t *held_begin, int64_t held_begin_size, const int64_t *held, int64_t held_size,
    int64_t *new_run_begin, int64_t new_run_begin_size, int64_t *new_runs, int64_t new_runs_size, int64_t *new_held_begin,
    int64_t new_held_begin_size, int64_t *new_held, int64_t new_held_size, int64_t *matches, int64_t matches_size,
    int64_t *status, int64_t status_size, int64_t variables, int64_t asked, int64_t after, int64_t skip_to,
    int64_t duration, int64_t now)
{
    if (variables < 1 || variables > 63)
        return MISFIT;
    int64_t width = COUNTS + variables;
    if (states < 1 || begin_size != states + 1 || variable_size != edges || must_size != edges || must_not_size != edges
        || end_size != partitions || shift_size != partitions || begins_size != rows || times_size != rows
        || run_begin_size != partitions + 1 || held_begin_size != partitions + 1 || runs_size % width
        || held_size % width || answers_size != runs_size / width || answered_size != partitions
        || new_run_begin_size != partitions + 1 || new_held_begin_size != partitions + 1 || new_runs_size % width
        || new_held_size % width || matches_size % width || status_size != STATUS || after < 0 || after > 3
        || begin[0] != 0 || begin[states] != edges
        || !within(status[DONE], partitions + 1) || !within(status[RUNS_USED], new_runs_size / width + 1)
        || !within(status[HELD_USED], new_held_size / width + 1) || !within(status[MATCHES_USED], matches_size / width + 1))
        return MISFIT;
    for (int64_t s = 0; s < states; s++)
        if (begin[s] > begin[s + 1] || begin[s] < 0)
            return MISFIT;
    for (int64_t s = 0; s < states; s++)
        for (int64_t e = begin[s]; e < begin[s + 1]; e++)
            /* PROCEED leads to states that were made before, so it comes to an end. */
            if (!within(target[e], variable[e] == -1 ? s : states) || variable[e] < -1 || variable[e] >= variables)
                return OUTSIDE(e);
    Walk walk = {begin, target, variable, must, must_not, variables, width, after, duration, (uint64_t)skip_to,
                 matches, matches_size / width, status[MATCHES_USED], {0}, {0}, {0}, {0}, NULL, NULL};
    walk.run = malloc((size_t)(2 * width) * sizeof *walk.run);
    if (walk.run == NULL)
        return NO_MEMORY;
    walk.spare = walk.run + width;
    status[FAILED] = 0;
    int64_t result = walk_partitions(
        &walk, states, reach, at, partitions, end, shift, alone, begins, times, rows, run_begin, runs, runs_size / width,
        answers, answered, held_begin, held, held_size / width, new_run_begin, new_runs, new_runs_size / width,
        new_held_begin, new_held, new_held_size / width, status, (uint64_t)asked, now);
    free(walk.runs.runs);
    free(walk.next.runs);
    free(walk.found.runs);
    free(walk.held.runs);
    free(walk.run);
    return result;
}
