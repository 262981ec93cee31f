/* GET /events: the lines of a run's log.jsonl as they come, as server-sent events.
 *
 *     id: 17                          the number of the line, from 0
 *     data: {...}                     the line
 *
 *     event: reset                    the log got shorter: it begins again at line 0
 *     event: served                   what /served answers, when that changed
 */
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/memory.h"
#include "infer/serve/http.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MOST = 1 << 18, PIECE = 1 << 16 };

struct follower {
    struct server *server;
    struct call    call;
    char           path[PATH_MAX];
    off_t          at;              // of the file, read so far
    long           line, from;      // the next one; those before from are passed over
    long           changes;         // of what is served, told
    double         sent;            // when something was last
    char          *part;            // (n_part) a line that has not ended
    size_t         n_part;
    char          *out;             // (n_out) events, out_at of it is sent
    size_t         n_out, out_at;
};

/* ---- lines ---- */

static void put_line(struct follower *f, FILE *to, const char *line, size_t len)
{
    if (f->line >= f->from) {
        fprintf(to, "id: %ld\ndata: ", f->line);
        fwrite(line, 1, len, to);
        fputs("\n\n", to);
    }
    f->line++;
}

/* Take bytes of the log: whole lines go out, the rest is kept. A line beyond all reason
 * is passed over. */
static void take_bytes(struct follower *f, FILE *to, const char *bytes, size_t n)
{
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t      len = end ? (size_t)(end - bytes) : n;
        size_t      fits = LINE_MOST - f->n_part < len ? LINE_MOST - f->n_part : len;

        memcpy(f->part + f->n_part, bytes, fits);
        f->n_part += fits;
        if (end) {
            put_line(f, to, f->part, f->n_part);
            f->n_part = 0;
            len++;
        }
        bytes += len;
        n -= len;
    }
}

static void begin_again(struct follower *f, FILE *to)
{
    f->at = 0;
    f->line = f->from = 0;
    f->n_part = 0;
    fputs("event: reset\ndata: {}\n\n", to);
}

/* What the log has got since, up to a piece of it. */
static void read_log(struct follower *f, FILE *to)
{
    char        bytes[PIECE];
    struct stat st;
    ssize_t     n;
    int         fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if (st.st_size < f->at)
            begin_again(f, to);
        n = pread(fd, bytes, sizeof bytes, f->at);
        if (n > 0) {
            f->at += n;
            take_bytes(f, to, bytes, (size_t)n);
        }
        if (f->at >= st.st_size && f->line < f->from)   // the client has lines it lacks
            begin_again(f, to);
    }
    close(fd);
}

static void put_served(struct follower *f, FILE *to)
{
    long    changes = served_changes(f->server->served);
    json_t *j;
    char   *text;

    if (changes == f->changes)
        return;
    f->changes = changes;
    j = served_json(f->server->served);
    text = json_to_text(j, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text)
        fprintf(to, "event: served\ndata: %s\n\n", text);
    free(text);
    json_decref(j);
}

/* ---- the stream ---- */

/* All that is new into f->out; false: out of memory. */
static bool collect(struct follower *f)
{
    double now = wall_seconds();
    FILE  *to;

    free(f->out);
    f->out = NULL;
    f->n_out = f->out_at = 0;
    to = memory_stream(&f->out, &f->n_out);
    if (!to)
        return false;
    put_served(f, to);
    read_log(f, to);
    if (ftell(to) == 0 && now - f->sent > f->server->o.beat)
        fputs(":\n\n", to);
    return fclose(to) == 0;
}

/* MHD_ContentReaderCallback */
static ssize_t read_events(void *user, uint64_t pos, char *to, size_t most)
{
    const struct timespec moment = {.tv_nsec = 200000000};
    struct follower      *f = user;

    (void)pos;
    while (f->out_at == f->n_out) {
        if (atomic_load(&f->server->stopping))
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (!call_waits(&f->call) || !collect(f))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (!f->n_out)
            nanosleep(&moment, NULL);
    }
    size_t n = f->n_out - f->out_at < most ? f->n_out - f->out_at : most;

    memcpy(to, f->out + f->out_at, n);
    f->out_at += n;
    f->sent = wall_seconds();
    return (ssize_t)n;
}

static void end_events(void *user)
{
    struct follower *f = user;

    free(f->part);
    free(f->out);
    free(f);
}

/* The line to begin with: after the last that the client has, or ?from=N. */
static long first_line(struct MHD_Connection *c)
{
    const char *last = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Last-Event-ID");
    const char *from = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "from");
    long        n = last ? strtol(last, NULL, 10) : from ? strtol(from, NULL, 10) : 0;

    if (n < 0)
        return 0;
    return last && n < LONG_MAX ? n + 1 : n;
}

enum MHD_Result events_answer(struct server *s, struct call *c)
{
    const char *name = MHD_lookup_connection_value(c->connection, MHD_GET_ARGUMENT_KIND,
                                                   "model");
    struct follower *f = calloc(1, sizeof *f);
    char            *part = malloc(LINE_MOST);

    if (!f || !part || !served_log(s->served, name, f->path)) {
        if (f && part)
            refuse(&c->refusal, 404, "model", "there is no model '%.100s' here", name);
        else
            refuse(&c->refusal, 503, NULL, "not enough memory");
        free(f);
        free(part);
        return reply_refusal(s, c, &c->refusal);
    }
    f->server = s;
    f->call = *c;
    f->part = part;
    f->from = first_line(c->connection);
    f->changes = -1;
    f->sent = wall_seconds();
    return reply_stream(s, c, read_events, f, end_events);
}
