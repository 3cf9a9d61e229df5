/* Messages of librdkafka to arrays: connectors/kafka/librdkafka.py. These are no kernels: they get addresses of another
   library, which nobody can check, so only that module calls them, with what the library gave. */

#include <string.h>

#include "kernel.h"

/* As `rdkafka.h` declares it; part of its public interface since 0.8. */
struct message {
    int err;
    void *topic;
    int32_t partition;
    const uint8_t *value;
    size_t size;
    const uint8_t *key;
    size_t key_size;
    int64_t offset;
    void *hidden;
};

typedef int64_t timestamp_of(const struct message *message, int *kind);
typedef int32_t leader_epoch_of(const struct message *message);
typedef void destroy_message(struct message *message);
typedef int headers_of(const struct message *message, void **headers);
typedef int header_at(const void *headers, size_t index, const char **name, const void **value, size_t *size);

/* sizes[0] and [1]: the bytes of all values, each with a line end behind it, and of all keys. */
KERNEL kafka_measure(struct message *const *messages, int64_t count, int64_t *sizes)
{
    sizes[0] = sizes[1] = 0;
    for (int64_t i = 0; i < count; i++) {
        sizes[0] += (int64_t)messages[i]->size + 1;
        sizes[1] += (int64_t)messages[i]->key_size;
    }
    return 0;
}

/* Copies values and keys. `numbers` has eight for each message: start and end of the value and of the key, offset, time, the
   kind of time and the leader's epoch; `flags` three: whether there is a value, a key, and an error, whose text is the value then.
   `codes` are the errors. Gives the number of errors. */
KERNEL kafka_fill(
    struct message *const *messages, int64_t count, timestamp_of *timestamp, leader_epoch_of *leader_epoch, uint8_t *values,
    uint8_t *keys, int64_t *numbers, uint8_t *flags, int64_t *codes)
{
    int64_t value_at = 0, key_at = 0, errors = 0;
    int64_t *starts = numbers, *ends = numbers + count, *key_starts = ends + count, *key_ends = key_starts + count;
    int64_t *offsets = key_ends + count, *times = offsets + count, *kinds = times + count, *epochs = kinds + count;
    for (int64_t i = 0; i < count; i++) {
        const struct message *message = messages[i];
        if (i + 8 < count) {
            PREFETCH(messages[i + 8]);
            if (messages[i + 2]->value)
                PREFETCH(messages[i + 2]->value);
        }
        int kind = 0;
        starts[i] = value_at;
        if (message->size && message->value)
            memcpy(values + value_at, message->value, message->size);
        value_at += message->value ? (int64_t)message->size : 0;
        ends[i] = value_at;
        values[value_at++] = '\n';
        key_starts[i] = key_at;
        if (message->key_size && message->key)
            memcpy(keys + key_at, message->key, message->key_size);
        key_at += message->key ? (int64_t)message->key_size : 0;
        key_ends[i] = key_at;
        offsets[i] = message->offset;
        times[i] = timestamp(message, &kind);
        kinds[i] = kind;
        epochs[i] = leader_epoch ? leader_epoch(message) : -1;
        flags[i] = message->value != NULL;
        flags[count + i] = message->key != NULL;
        flags[2 * count + i] = message->err != 0;
        codes[i] = message->err;
        errors += message->err != 0;
    }
    return errors;
}

/* The headers of messages: how many each has (`counts`), and of all of them the bytes of names and values (`sizes`); where
   `names` is given, these, where each ends, and whether it has a value. */
KERNEL kafka_headers(
    struct message *const *messages, int64_t count, headers_of *headers, header_at *header, int64_t *counts, int64_t *sizes,
    uint8_t *names, int64_t *name_ends, uint8_t *values, int64_t *value_ends, uint8_t *valid)
{
    int64_t total = 0;
    sizes[0] = sizes[1] = 0;
    for (int64_t i = 0; i < count; i++) {
        void *found = NULL;
        const char *name;
        const void *value;
        size_t size, number = 0;
        if (messages[i]->err == 0 && headers(messages[i], &found) == 0)
            for (; header(found, number, &name, &value, &size) == 0; number++, total++) {
                size_t length = strlen(name);
                if (names) {
                    memcpy(names + sizes[0], name, length);
                    if (value && size)
                        memcpy(values + sizes[1], value, size);
                    name_ends[total] = sizes[0] + (int64_t)length;
                    value_ends[total] = sizes[1] + (value ? (int64_t)size : 0);
                    valid[total] = value != NULL;
                }
                sizes[0] += (int64_t)length;
                sizes[1] += value ? (int64_t)size : 0;
            }
        counts[i] = (int64_t)number;
    }
    return total;
}

KERNEL kafka_release(struct message **messages, int64_t count, destroy_message *destroy)
{
    for (int64_t i = 0; i < count; i++)
        destroy(messages[i]);
    return 0;
}
