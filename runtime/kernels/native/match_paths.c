/* The walk of MATCH_RECOGNIZE with the meaning of the SQL standard: runtime/kernels/match_paths.py.

   Runs of a partition stand by their first rows, then by preference; one that is complete is in the state FINAL, as the last
   of those that began with its row. Runs share the steps of their paths that they have in common: a node is a step with the
   node of those before it. Where conditions depend on the run a node is there once, so two runs with one path have one. */

#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define NOT_BEGUN INT64_MAX
#define FINAL 0
#define WORDS 3
#define EVER INT64_MAX

/* Steps of paths and edges: runtime/kernels/match_walk.py. */
#define VARIABLE_BITS 7
#define ONE ((int64_t)1 << VARIABLE_BITS)
#define MAPPED (ONE - 1)
#define PLAIN 63
#define COMPLETE (-1)
#define COMPLETE_AT_END (-2)

#define PAST_LAST_ROW 0
#define TO_NEXT_ROW 1
#define TO_FIRST 2

/* What `status` tells. */
#define DONE 0
#define RUNS_USED 1
#define STEPS_USED 2
#define MATCHES_USED 3
#define MATCH_STEPS_USED 4
#define FAILED 5
#define STATUS 6

#define NO_ROOM 1
#define FIRST_ROW_AGAIN 2
#define NOTHING_MAPPED 3
#define TOO_MANY 4
#define MOST_RUNS 10000

/* `rows`: how many it has; `before`: the node of the steps before the last one (-1: none); `last`: that step (0: none). */
typedef struct {
    int64_t start, time, state, rows, before, last;
} Run;

/* Runs from `first` on. */
typedef struct {
    Run *runs;
    int64_t first, size, room;
} List;

typedef struct {
    int64_t before, step;
} Node;

typedef struct {
    int64_t a, b, value;
    uint64_t stamp;
} Slot;

/* Pairs of numbers with a value. What has another stamp is not there, so a table is emptied by a new one. */
typedef struct {
    Slot *slots;
    int64_t room, used;
    uint64_t stamp;
} Table;

typedef struct {
    const int64_t *begin, *target, *variable;
    const uint64_t *reach;
    int64_t states, start, after, within;
    uint64_t skip_to, asked;
    unsigned char *complete, *complete_at_end, *goes_on;
    uint64_t *reached, group;
    int64_t *matches, matches_room, *match_begin, *match_steps, match_steps_room, matches_used, match_steps_used;
    List runs, next;
    Node *nodes;
    int64_t nodes_used, nodes_room;
    Table node_of, seen;
} Walk;

/* Numbers that come from outside may be too large to be added. */
static int64_t sum(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int grow(void **array, int64_t *room, int64_t needed, size_t item)
{
    if (needed <= *room)
        return 1;
    int64_t size = *room < 16 ? 16 : 2 * *room;
    size = size < needed ? needed : size;
    if (size > INT64_MAX / 64)
        return 0;
    void *larger = realloc(*array, (size_t)size * item);
    if (larger == NULL)
        return 0;
    *array = larger;
    *room = size;
    return 1;
}

static int add(List *list, Run run)
{
    if (!grow((void **)&list->runs, &list->room, list->first + list->size + 1, sizeof run))
        return 0;
    list->runs[list->first + list->size++] = run;
    return 1;
}

static void clear(List *list)
{
    list->first = list->size = 0;
}

static uint64_t mixed(int64_t a, int64_t b)
{
    uint64_t h = (uint64_t)a * 0x9E3779B97F4A7C15u ^ (uint64_t)b * 0xC2B2AE3D27D4EB4Fu;
    h ^= h >> 29;
    h *= 0xBF58476D1CE4E5B9u;
    return h ^ h >> 32;
}

static Slot *slot_of(const Table *table, int64_t a, int64_t b)
{
    uint64_t mask = (uint64_t)table->room - 1;
    for (uint64_t i = mixed(a, b) & mask;; i = (i + 1) & mask) {
        Slot *slot = table->slots + i;
        if (slot->stamp != table->stamp || (slot->a == a && slot->b == b))
            return slot;
    }
}

/* The value of a pair; `value` where it was not there, and is now. -1 without memory: values are from 0 up. */
static int64_t found_or_put(Table *table, int64_t a, int64_t b, int64_t value)
{
    if (2 * (table->used + 1) > table->room) {
        Table larger = {NULL, table->room < 32 ? 64 : 2 * table->room, table->used, 1};
        larger.slots = calloc((size_t)larger.room, sizeof *larger.slots);
        if (larger.slots == NULL)
            return -1;
        for (int64_t i = 0; i < table->room; i++)
            if (table->slots[i].stamp == table->stamp) {
                Slot *to = slot_of(&larger, table->slots[i].a, table->slots[i].b);
                *to = table->slots[i];
                to->stamp = larger.stamp;
            }
        free(table->slots);
        *table = larger;
    }
    Slot *slot = slot_of(table, a, b);
    if (slot->stamp == table->stamp)
        return slot->value;
    *slot = (Slot){a, b, value, table->stamp};
    table->used++;
    return value;
}

static void empty(Table *table)
{
    table->used = 0;
    table->stamp++;
}

/* The node of a step behind others; -1 without memory. */
static int64_t node(Walk *walk, int64_t before, int64_t step)
{
    if (walk->asked) {
        int64_t known = found_or_put(&walk->node_of, before, step, walk->nodes_used);
        if (known < walk->nodes_used)
            return known;
    }
    if (!grow((void **)&walk->nodes, &walk->nodes_room, walk->nodes_used + 1, sizeof *walk->nodes))
        return -1;
    walk->nodes[walk->nodes_used] = (Node){before, step};
    return walk->nodes_used++;
}

/* Writes the steps of a run behind the `used` ones; how many there are then, or -1 where there is no room. */
static int64_t write_path(const Walk *walk, const Run *run, int64_t *steps, int64_t used, int64_t room)
{
    int64_t length = run->last != 0;
    for (int64_t at = run->before; at >= 0; at = walk->nodes[at].before)
        length++;
    if (length > room - used)
        return -1;
    int64_t place = used + length;
    if (run->last)
        steps[--place] = run->last;
    for (int64_t at = run->before; at >= 0; at = walk->nodes[at].before)
        steps[--place] = walk->nodes[at].step;
    return used + length;
}

/* How many rows behind the first row of a match matching goes on; 0 or less: why not, negative. */
static int64_t rows_on(const Walk *walk, const Run *match, const int64_t *path, int64_t length)
{
    if (match->last == 0 || walk->after == TO_NEXT_ROW)
        return 1;
    if (walk->after == PAST_LAST_ROW)
        return match->rows > 0 ? match->rows : -NOTHING_MAPPED;
    int64_t rows = 0, first = -1, last = -1;
    for (int64_t i = 0; i < length; i++) {
        int64_t count = path[i] >> VARIABLE_BITS;
        if (walk->skip_to >> (path[i] & PLAIN) & 1) {
            first = first < 0 ? rows : first;
            last = sum(rows, count - 1);
        }
        rows = sum(rows, count);
    }
    int64_t to = walk->after == TO_FIRST ? first : last;
    return to < 0 ? -NOTHING_MAPPED : to == 0 ? -FIRST_ROW_AGAIN : to;
}

/* Rows of a match begin no other one. Which match the first row begins may be open; that it begins one, and how many rows
   it has at least, is known by the run that is complete. */
static void give_up_covered(List *list)
{
    Run *runs = list->runs + list->first;
    int64_t i = 0;
    while (i < list->size && runs[i].start == runs[0].start && runs[i].state != FINAL)
        i++;
    if (i == list->size || runs[i].start != runs[0].start)
        return;
    int64_t bound = sum(runs[i].start, runs[i].last ? runs[i].rows : 1), end = ++i;
    while (end < list->size && runs[end].start < bound)
        end++;
    if (end > i) {
        memmove(runs + i, runs + end, (size_t)(list->size - end) * sizeof *runs);
        list->size -= end - i;
    }
}

/* Gives the matches before which no run may still become one. 0, or why not. */
static int64_t settle(Walk *walk, int64_t partition, int64_t row)
{
    List *list = &walk->runs;
    while (list->size && list->runs[list->first].state == FINAL) {
        Run match = list->runs[list->first];
        if (walk->matches_used == walk->matches_room)
            return NO_ROOM;
        int64_t used = walk->match_steps_used;
        int64_t end = write_path(walk, &match, walk->match_steps, used, walk->match_steps_room);
        if (end < 0)
            return NO_ROOM;
        int64_t on = rows_on(walk, &match, walk->match_steps + used, end - used);
        if (on <= 0)
            return -on;
        int64_t *out = walk->matches + walk->matches_used++ * WORDS;
        out[0] = partition;
        out[1] = row;
        out[2] = match.start;
        walk->match_begin[walk->matches_used] = walk->match_steps_used = end;
        int64_t bound = sum(match.start, on);
        do {
            list->first++;
            list->size--;
        } while (list->size && list->runs[list->first].start < bound);
    }
    if (walk->after == PAST_LAST_ROW && list->size)
        give_up_covered(list);
    return 0;
}

/* The time from which on a run is too long, where there is one. */
static int64_t limit(const Walk *walk, const Run *run)
{
    return run->time > INT64_MAX - walk->within ? INT64_MAX : run->time + walk->within;
}

/* Takes out the runs that are too long at a time. `over`: behind the rows there are, where a run waits for what may be the
   end; at the end it is complete. */
static int64_t expire(Walk *walk, int64_t now, int over, int64_t partition, int64_t row)
{
    List *list = &walk->runs;
    int end = over && now == EVER, ended = 0;
    if (walk->within <= 0 && !end)
        return 0;
    int64_t kept = 0, changed = 0, of_start = 0;
    Run *runs = list->runs + list->first;
    for (int64_t i = 0; i < list->size; i++) {
        Run run = runs[i];
        if (i == 0 || run.start != of_start)
            ended = 0;
        of_start = run.start;
        if (run.start != NOT_BEGUN && (run.state != FINAL || ended)) {
            int waits = over && walk->complete_at_end[run.state];
            if (end && waits && !ended) {
                run.state = FINAL;
                ended = changed = 1;
            } else if (end || (!waits && now >= limit(walk, &run))) {
                changed = 1;
                continue;
            }
        }
        runs[kept++] = run;
    }
    list->size = kept;
    return changed ? settle(walk, partition, row) : 0;
}

/* Takes a run on to a place behind it, if no run before it is there with the same future. 1: the run is complete with it, 0: it is
   not; NO_MEMORY. */
static int64_t take(Walk *walk, const Run *run, int64_t position, int64_t time, int64_t target, int64_t variable)
{
    Run taken = *run;
    if (taken.last && (taken.last & MAPPED) == variable)
        taken.last = sum(taken.last, ONE);
    else {
        if (taken.last && (taken.before = node(walk, taken.before, taken.last)) < 0)
            return NO_MEMORY;
        taken.last = ONE | variable;
    }
    if (run->start == NOT_BEGUN) {
        taken.start = position;
        taken.time = time;
    }
    taken.rows = sum(taken.rows, 1);
    taken.state = target;
    if (walk->asked) {
        int64_t key = sum((int64_t)((uint64_t)taken.before * (uint64_t)walk->states), target), used = walk->seen.used;
        if (found_or_put(&walk->seen, key, taken.last, 0) < 0)
            return NO_MEMORY;
        if (walk->seen.used == used)
            return 0;
    } else {
        if (walk->reached[target] == walk->group)
            return 0;
        walk->reached[target] = walk->group;
    }
    if (walk->goes_on[target] && !add(&walk->next, taken))
        return NO_MEMORY;
    if (!walk->complete[target])
        return 0;
    taken.state = FINAL;
    return add(&walk->next, taken) ? 1 : NO_MEMORY;
}

static int64_t take_row(
    Walk *walk, int64_t position, int64_t time, uint64_t begins, uint64_t alone, const uint64_t *answers,
    int64_t partition, int64_t row)
{
    List *next = &walk->next;
    int64_t of_start = 0, began = 0, size = walk->runs.size;
    int complete = 0;
    clear(next);
    for (int64_t i = 0; i < size; i++) {
        Run run = walk->runs.runs[walk->runs.first + i];
        int first = run.start == NOT_BEGUN;
        if (i == 0 || run.start != began) {
            began = run.start;
            complete = 0;
            of_start = next->size;
            walk->group++;
            if (walk->asked)
                empty(&walk->seen);
        }
        if (complete)
            continue;
        if (run.state == FINAL) {
            if (!add(next, run))
                return NO_MEMORY;
            continue;
        }
        uint64_t truth = first ? begins : alone & (~walk->asked | (answers == NULL ? 0 : answers[i]));
        for (int64_t e = walk->begin[run.state]; e < walk->begin[run.state + 1] && !complete; e++) {
            if (walk->variable[e] < 0 || !(truth >> (walk->variable[e] & PLAIN) & 1))
                continue;
            int64_t ends = take(walk, &run, position, time, walk->target[e], walk->variable[e]);
            if (ends < 0)
                return ends;
            complete = (int)ends;
        }
        if (first) {
            Run none = {position, time, FINAL, 0, -1, 0};
            if (walk->complete[run.state] && !complete && !add(next, none))
                return NO_MEMORY;
            run.state = walk->start;
            if (!add(next, run))
                return NO_MEMORY;
        }
        if (next->size - of_start > MOST_RUNS)
            return TOO_MANY;
    }
    List kept = walk->runs;
    walk->runs = *next;
    *next = kept;
    return settle(walk, partition, row);
}

/* What is known of runs when a call begins. */
static int64_t begin_partition(
    Walk *walk, const int64_t *runs, int64_t first, int64_t end, const int64_t *path_begin, const int64_t *steps,
    int64_t steps_size)
{
    clear(&walk->runs);
    walk->nodes_used = 0;
    empty(&walk->node_of);
    for (int64_t r = first; r < end; r++) {
        const int64_t *words = runs + r * WORDS;
        int64_t from = path_begin[r], to = path_begin[r + 1];
        if (!within(words[2], walk->states) || !within(from, steps_size + 1) || !within(to, steps_size + 1) || from > to)
            return OUTSIDE(r);
        Run run = {words[0], words[1], words[2], 0, -1, 0};
        for (int64_t s = from; s < to; s++) {
            run.rows = sum(run.rows, steps[s] >> VARIABLE_BITS);
            if (s + 1 < to && (run.before = node(walk, run.before, steps[s])) < 0)
                return NO_MEMORY;
            run.last = steps[s];
        }
        if (!add(&walk->runs, run))
            return NO_MEMORY;
    }
    return 0;
}

static int asks(const Walk *walk, uint64_t alone)
{
    for (int64_t i = 0; i < walk->runs.size; i++) {
        const Run *run = walk->runs.runs + walk->runs.first + i;
        if (run->start != NOT_BEGUN && (walk->reach[run->state] & walk->asked & alone))
            return 1;
    }
    return 0;
}

/* Walks each partition from row `at` on, up to `end` or to a row for which answers are needed, and at the end of its rows
   up to the time `now`. `status` begins as zeros; where room was missing (`NO_ROOM`) the call goes on with the same arrays,
   the new ones larger. */
KERNEL sqlengine_match_paths(
    const int64_t *begin, int64_t begin_size, const int64_t *target, int64_t edges, const int64_t *variable,
    int64_t variable_size, const uint64_t *reach, int64_t states, int64_t *at, int64_t partitions, const int64_t *end,
    int64_t end_size, const int64_t *shift, int64_t shift_size, const uint64_t *alone, int64_t rows, const uint64_t *begins,
    int64_t begins_size, const int64_t *times, int64_t times_size, const int64_t *run_begin, int64_t run_begin_size,
    const int64_t *runs, int64_t runs_size, const int64_t *path_begin, int64_t path_begin_size, const int64_t *steps,
    int64_t steps_size, const uint64_t *answers, int64_t answers_size, const int64_t *answered, int64_t answered_size,
    int64_t *new_run_begin, int64_t new_run_begin_size, int64_t *new_runs, int64_t new_runs_size, int64_t *new_path_begin,
    int64_t new_path_begin_size, int64_t *new_steps, int64_t new_steps_size, int64_t *matches, int64_t matches_size,
    int64_t *match_begin, int64_t match_begin_size, int64_t *match_steps, int64_t match_steps_size, int64_t *status,
    int64_t status_size, int64_t start, int64_t asked, int64_t after, int64_t skip_to, int64_t duration, int64_t now)
{
    if (states < 1 || begin_size != states + 1 || variable_size != edges || end_size != partitions
        || shift_size != partitions || begins_size != rows || times_size != rows || run_begin_size != partitions + 1
        || runs_size % WORDS || path_begin_size != runs_size / WORDS + 1 || answers_size != runs_size / WORDS
        || answered_size != partitions || new_run_begin_size != partitions + 1 || new_runs_size % WORDS
        || new_path_begin_size != new_runs_size / WORDS + 1 || matches_size % WORDS
        || match_begin_size != matches_size / WORDS + 1 || status_size != STATUS || after < 0 || after > 3
        || !within(start, states) || begin[0] != 0 || begin[states] != edges || !within(status[DONE], partitions + 1)
        || !within(status[RUNS_USED], new_runs_size / WORDS + 1) || !within(status[STEPS_USED], new_steps_size + 1)
        || !within(status[MATCHES_USED], matches_size / WORDS + 1)
        || !within(status[MATCH_STEPS_USED], match_steps_size + 1))
        return MISFIT;
    for (int64_t s = 0; s < states; s++)
        if (begin[s] > begin[s + 1] || begin[s] < 0)
            return MISFIT;
    for (int64_t e = 0; e < edges; e++)
        if (!within(target[e], states) || variable[e] < COMPLETE_AT_END || variable[e] > MAPPED)
            return OUTSIDE(e);
    Walk walk = {0};
    walk.begin = begin;
    walk.target = target;
    walk.variable = variable;
    walk.reach = reach;
    walk.states = states;
    walk.start = start;
    walk.after = after;
    walk.within = duration;
    walk.skip_to = (uint64_t)skip_to;
    walk.asked = (uint64_t)asked;
    walk.matches = matches;
    walk.matches_room = matches_size / WORDS;
    walk.match_begin = match_begin;
    walk.match_steps = match_steps;
    walk.match_steps_room = match_steps_size;
    walk.matches_used = status[MATCHES_USED];
    walk.match_steps_used = status[MATCH_STEPS_USED];
    walk.node_of.stamp = walk.seen.stamp = 1;
    walk.complete = calloc((size_t)states, 3);
    walk.reached = calloc((size_t)states, sizeof *walk.reached);
    int64_t result = walk.complete == NULL || walk.reached == NULL ? NO_MEMORY : 0;
    if (!result) {
        walk.complete_at_end = walk.complete + states;
        walk.goes_on = walk.complete_at_end + states;
        for (int64_t s = 0; s < states; s++)
            for (int64_t e = begin[s]; e < begin[s + 1]; e++) {
                walk.complete[s] |= variable[e] == COMPLETE;
                walk.complete_at_end[s] |= variable[e] == COMPLETE_AT_END;
                walk.goes_on[s] |= variable[e] != COMPLETE;
            }
    }
    status[FAILED] = 0;
    for (int64_t p = status[DONE]; p < partitions && !result; p++) {
        int64_t first = run_begin[p], last = run_begin[p + 1], failed = 0;
        if (!within(first, runs_size / WORDS + 1) || !within(last, runs_size / WORDS + 1) || first > last
            || !within(end[p], rows + 1) || at[p] < 0 || at[p] > end[p]) {
            result = OUTSIDE(p);
            break;
        }
        result = begin_partition(&walk, runs, first, last, path_begin, steps, steps_size);
        if (result)
            break;
        const uint64_t *given = answered[p] ? answers + first : NULL;
        int64_t row = at[p], matches_before = walk.matches_used, steps_before = walk.match_steps_used;
        for (; row < end[p]; row++) {
            failed = expire(&walk, times[row], 0, p, row);
            if (failed || (walk.asked && given == NULL && asks(&walk, alone[row])))
                break;
            failed = take_row(&walk, sum(row, shift[p]), times[row], begins[row], alone[row], given, p, row);
            given = NULL;
            if (failed)
                break;
        }
        if (!failed && row == end[p])
            failed = expire(&walk, now, 1, p, row - 1);
        if (failed < 0) {
            result = failed;
            break;
        }
        int64_t runs_used = status[RUNS_USED], steps_used = status[STEPS_USED];
        if (!failed && walk.runs.size > new_runs_size / WORDS - runs_used)
            failed = NO_ROOM;
        for (int64_t i = 0; i < walk.runs.size && !failed; i++) {
            const Run *run = walk.runs.runs + walk.runs.first + i;
            int64_t *out = new_runs + runs_used * WORDS;
            out[0] = run->start;
            out[1] = run->time;
            out[2] = run->state;
            steps_used = write_path(&walk, run, new_steps, steps_used, new_steps_size);
            if (steps_used < 0)
                failed = NO_ROOM;
            else
                new_path_begin[++runs_used] = steps_used;
        }
        if (failed) {
            walk.matches_used = matches_before;
            walk.match_steps_used = steps_before;
            status[FAILED] = failed;
            break;
        }
        at[p] = row;
        status[RUNS_USED] = new_run_begin[p + 1] = runs_used;
        status[STEPS_USED] = steps_used;
        status[DONE] = p + 1;
    }
    status[MATCHES_USED] = walk.matches_used;
    status[MATCH_STEPS_USED] = walk.match_steps_used;
    free(walk.runs.runs);
    free(walk.next.runs);
    free(walk.nodes);
    free(walk.node_of.slots);
    free(walk.seen.slots);
    free(walk.complete);
    free(walk.reached);
    return result;
}
